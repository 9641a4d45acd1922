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
        """As many rows of equal weight as would tell as much."""
        return _effective(np.ones(self.rows) if self.weights is None else self.weights)

    @property
    def effective_clusters(self) -> float:
        """As many clusters of equal weight as would tell as much; rows are independent where there are none.

        A mean of clusters of which one is most of all follows that one, and its spread cannot be seen: A. V.
        Carter, K. T. Schnepel and D. G. Steigerwald, "Asymptotic behavior of a t-test robust to cluster
        heterogeneity" (2017).
        """
        if self.clusters is None:
            return self.effective_rows
        return _effective(np.bincount(self.clusters, weights=self.weights).astype(np.float64))

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


def _effective(weights: np.ndarray) -> float:
    """(Σ w)² / Σ w² of weights [n]: L. Kish, "Survey Sampling" (1965)."""
    scaled = weights / weights.max()  # the squares of tiny weights would vanish
    return float(scaled.sum() ** 2 / (scaled**2).sum())
