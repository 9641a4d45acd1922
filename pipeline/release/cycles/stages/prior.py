"""What a first model must beat: a prediction that knows no features, only the training rows' labels."""

import numpy as np

from pipeline.data.dataset.statistics import SplitStatistics
from pipeline.data.schema.kinds import Label


def prior_of(statistics: SplitStatistics, label: Label) -> float | np.ndarray | None:
    """The positive class's share, the share of each class [classes], or the mean; None where nobody knows.

    Args:
      statistics: of the rows that were trained on.
    """
    measured = statistics.features[label.name]
    if label.task == "regression":
        return measured.numeric.mean if measured.numeric else None
    if measured.values is None or not measured.values.complete:
        return None
    counts = _by_class(dict(measured.values.values), label)
    if not counts.sum():
        return None
    shares = counts / counts.sum()
    return float(shares[1]) if label.task == "binary" else shares


def _by_class(counts: dict[str, int], label: Label) -> np.ndarray:
    """[classes]. Statistics name only classes that occur."""
    return np.array([counts.get(name, 0) for name in label.classes], np.float64)
