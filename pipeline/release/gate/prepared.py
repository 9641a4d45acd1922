"""What was scored, ready for statistics: rows that count, and each model's column of a metric."""

import dataclasses
from collections.abc import Mapping

import numpy as np

from pipeline.release.gate.metrics import Metric
from pipeline.release.gate.scored import CHAMPION, REGRESSION, Scored
from pipeline.release.gate.statistics.sample import Sample

PRIOR = "prior"  # the model that knows no features


@dataclasses.dataclass(frozen=True, kw_only=True)
class Prepared:
    """Rows of a weight above 0.

    Attributes:
      labels: int64 classes or float64 values, [n].
      predictions: of each model, [n, classes] or float64 [n]; of the prior too where there is no champion.
      weights: float64 [n], 1 at most; None where all rows count the same.
      clusters: int64 [n], from 0 on; None: rows are independent.
      kept: bool [all rows], those that have a weight above 0.
    """

    labels: np.ndarray
    predictions: Mapping[str, np.ndarray]
    weights: np.ndarray | None
    clusters: np.ndarray | None
    kept: np.ndarray

    def sample(self, metric: Metric) -> Sample:
        """Each model's column of the metric."""
        return Sample(
            columns={model: metric.column(self.labels, made) for model, made in self.predictions.items()},
            positive=self.labels == 1 if metric.kind == "area" else None,
            weights=self.weights,
            clusters=self.clusters,
        )


def prepared(scored: Scored) -> Prepared:
    kept, weights = _weights(scored)
    labels = np.asarray(scored.labels)[kept].astype(np.float64 if scored.task == REGRESSION else np.int64)
    predictions = {model: _predictions(scored.task, made)[kept] for model, made in scored.predictions.items()}
    if CHAMPION not in predictions:
        predictions[PRIOR] = _prior(scored, labels, weights)
    clusters = scored.clusters
    return Prepared(
        labels=labels,
        predictions=predictions,
        weights=weights,
        clusters=None if clusters is None else np.unique(np.asarray(clusters)[kept], return_inverse=True)[1],
        kept=kept,
    )


def _weights(scored: Scored) -> tuple[np.ndarray, np.ndarray | None]:
    """Which rows count, bool [all rows], and what they weigh beside the heaviest, [n]."""
    if scored.weights is None:
        return np.ones(scored.rows, bool), None
    weights = np.asarray(scored.weights, np.float64)
    weights = weights / weights.max()
    kept = weights > 0
    return kept, None if np.all(weights[kept] == 1) else weights[kept]


def _predictions(task: str, made: np.ndarray) -> np.ndarray:
    made = np.asarray(made)
    if task == REGRESSION:
        return made.reshape(len(made)).astype(np.float64)
    return made if made.ndim == 2 else np.stack([1 - made.astype(np.float64), made], axis=1)


def _prior(scored: Scored, labels: np.ndarray, weights: np.ndarray | None) -> np.ndarray:
    """The same prediction for every row."""
    found = scored.prior
    if scored.task == REGRESSION:
        return np.full(len(labels), np.average(labels, weights=weights) if found is None else float(found))
    if found is None:
        rates = np.bincount(labels, weights=weights, minlength=scored.classes)
        found = rates / rates.sum()
    elif np.ndim(found) == 0:
        found = [1 - float(found), float(found)]
    return np.broadcast_to(np.asarray(found, np.float64), (len(labels), scored.classes))
