"""One number of each model for each example: what statistics are made of."""

import dataclasses
from collections.abc import Mapping

import numpy as np


@dataclasses.dataclass(frozen=True, kw_only=True)
class Sample:
    """Examples, all of a weight above 0, and the models' numbers on them.

    Attributes:
      columns: of each model a number for each example, float64 [n]: a loss, 0 or 1 for a right answer, or the
        score of the positive class.
      positive: whether the label is the positive class, bool [n]; None where nothing is ranked.
      weights: float64 [n], above 0; None: all are 1.
      clusters: int64 [n], from 0 on without gaps; None: each row is independent of the others.
    """

    columns: Mapping[str, np.ndarray]
    positive: np.ndarray | None = None
    weights: np.ndarray | None = None
    clusters: np.ndarray | None = None

    @property
    def rows(self) -> int:
        return len(next(iter(self.columns.values())))

    @property
    def units(self) -> int:
        """Clusters where there are some, else rows."""
        return self.rows if self.clusters is None else int(self.clusters.max(initial=-1)) + 1

    @property
    def effective_rows(self) -> float:
        """As many rows of equal weight as would tell as much: L. Kish, "Survey Sampling" (1965)."""
        if self.weights is None:
            return float(self.rows)
        scaled = self.weights / self.weights.max()  # the squares of tiny weights would vanish
        return float(scaled.sum() ** 2 / (scaled**2).sum())

    def take(self, rows: np.ndarray) -> "Sample":
        """Those rows alone; `rows` are indices, or bool [n]."""
        clusters = None
        if self.clusters is not None:
            clusters = np.unique(self.clusters[rows], return_inverse=True)[1]
        return Sample(
            columns={model: column[rows] for model, column in self.columns.items()},
            positive=None if self.positive is None else self.positive[rows],
            weights=None if self.weights is None else self.weights[rows],
            clusters=clusters,
        )
