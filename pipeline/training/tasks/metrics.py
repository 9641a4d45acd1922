"""Metrics that a config can ask for besides a task's own: their formulas, exact over all examples.

Each is an accumulator on the host, in float64, so that padding, batches and replicas change nothing.
`METRICS` names them; scikit-learn is their reference, whose conventions they follow:

- An average over classes is over those that occur; a share of nothing is 0.
- A class is the answer where its probability is the largest. With two classes there may be a threshold t, as
  in `precision@0.3`: then the positive one is the answer where its probability is above t.
- A multilabel has the mean over all its classes, each by itself: the average `macro`.
"""

import dataclasses
from collections.abc import Callable, Mapping

import numpy as np

from pipeline.data.schema.feature_types import Label
from pipeline.training.tasks.task import Metric

_BINS = 15  # bins of a calibration error, as in the paper
_THRESHOLD = 0.5


class Accumulator:
    """Takes batches and gives one number. Weights are float64 [n]; where examples have none, all are 1."""

    def update(self, labels: np.ndarray, predictions: np.ndarray, weights: np.ndarray) -> None:
        """Adds examples: labels [n], and predictions float64 [n, …] as `Task.predictions` gives them."""
        raise NotImplementedError

    def result(self) -> float | None:
        """The number over all examples; None if they have none, for example for a ranking of only one
        class.
        """
        raise NotImplementedError


# Function of (label, the number after `@`; None: there is none); makes an accumulator.
_Make = Callable[[Label, float | None], Accumulator]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Known:
    """A metric with a name of its own.

    Attributes:
      make: makes a new accumulator.
      tasks: the tasks that have this metric.
      at: the meaning of the number after `@`; empty: there is none.
      needs_at: whether this number must be given.
    """

    make: _Make
    tasks: tuple[str, ...]
    at: str = ""
    needs_at: bool = False
    is_fraction: bool = True
    is_higher_better: bool = True

    def shown(self, key: str) -> Metric:
        """The name of the metric in the report."""
        return Metric(
            key=key,
            name=key.replace("_", " "),
            is_fraction=self.is_fraction,
            is_higher_better=self.is_higher_better,
        )


# --- Metrics from a confusion matrix of weights: [actual, predicted].


class _Confusion(Accumulator):
    def __init__(self, label: Label, threshold: float | None, of: Callable[[np.ndarray], float]) -> None:
        self._classes, self._threshold, self._of = len(label.classes), threshold, of
        self._weights = np.zeros(self._classes**2)

    def update(self, labels: np.ndarray, predictions: np.ndarray, weights: np.ndarray) -> None:
        threshold = self._threshold
        answers = predictions.argmax(axis=1) if threshold is None else predictions[:, 1] > threshold
        cells = labels.astype(np.int64) * self._classes + answers
        self._weights += np.bincount(cells, weights, minlength=len(self._weights))

    def result(self) -> float | None:
        value = float(self._of(self._weights.reshape(self._classes, self._classes)))
        return value if np.isfinite(value) else None


def share(part: np.ndarray, whole: np.ndarray) -> np.ndarray:
    """`part` as a share of `whole`; 0 where that is 0."""
    return np.divide(part, whole, out=np.zeros_like(whole), where=whole > 0)


def _precisions(matrix: np.ndarray) -> np.ndarray:
    return share(np.diag(matrix), matrix.sum(axis=0))


def _recalls(matrix: np.ndarray) -> np.ndarray:
    return share(np.diag(matrix), matrix.sum(axis=1))


def _f1s(matrix: np.ndarray) -> np.ndarray:
    return share(2 * np.diag(matrix), matrix.sum(axis=0) + matrix.sum(axis=1))


def _of_positive(of_classes: Callable[[np.ndarray], np.ndarray]) -> Callable[[np.ndarray], float]:
    """The value of the second class if there are two, else the mean over classes."""

    def value(matrix: np.ndarray) -> float:
        found = of_classes(matrix)
        occurs = matrix.sum(axis=0) + matrix.sum(axis=1) > 0
        return found[1] if len(found) == 2 else found[occurs].mean()

    return value


def _balanced_accuracy(matrix: np.ndarray) -> float:
    return _recalls(matrix)[matrix.sum(axis=1) > 0].mean()


def _kappa(matrix: np.ndarray) -> float:
    """J. Cohen, "A Coefficient of Agreement for Nominal Scales" (1960)."""
    whole = matrix.sum()
    by_chance = (matrix.sum(axis=0) * matrix.sum(axis=1)).sum() / whole**2
    return (np.trace(matrix) / whole - by_chance) / (1 - by_chance) if by_chance < 1 else np.nan


def _matthews(matrix: np.ndarray) -> float:
    """J. Gorodkin, "Comparing two K-category assignments by a K-category correlation coefficient" (2004)."""
    actual, predicted, whole = matrix.sum(axis=1), matrix.sum(axis=0), matrix.sum()
    if min(np.count_nonzero(actual), np.count_nonzero(predicted)) < 2:
        return 0.0  # rounding could make it the root of a number below 0
    covariance = np.trace(matrix) * whole - actual @ predicted
    spread = np.sqrt(whole**2 - predicted @ predicted) * np.sqrt(whole**2 - actual @ actual)
    return covariance / spread if spread else 0.0


class _ClassesAlone(Accumulator):
    """A metric of a multilabel: each class has a matrix of its own, and the metric is the mean over them."""

    def __init__(self, label: Label, threshold: float | None, of: Callable[[np.ndarray], float]) -> None:
        pair = Label(name=label.name, task="binary", classes=("no", "yes"))
        self._classes = [
            _Confusion(pair, _THRESHOLD if threshold is None else threshold, of) for _ in label.classes
        ]

    def update(self, labels: np.ndarray, predictions: np.ndarray, weights: np.ndarray) -> None:
        for at, each in enumerate(self._classes):
            score = predictions[:, at]
            each.update(labels[:, at], np.stack([1.0 - score, score], axis=1), weights)

    def result(self) -> float | None:
        found = [each.result() for each in self._classes]
        return None if None in found else float(np.mean(found))


def _confused(of: Callable[[np.ndarray], float]) -> _Make:
    def make(label: Label, threshold: float | None) -> Accumulator:
        if label.shape:
            return _ClassesAlone(label, threshold, of)
        is_binary = label.task == "binary"
        return _Confusion(label, _THRESHOLD if threshold is None and is_binary else threshold, of)

    return make


# --- Means over examples.


class _Mean(Accumulator):
    def __init__(self, of: Callable[[np.ndarray, np.ndarray], np.ndarray]) -> None:
        self._of, self._sum, self._weight = of, 0.0, 0.0

    def update(self, labels: np.ndarray, predictions: np.ndarray, weights: np.ndarray) -> None:
        self._sum += float((weights * self._of(labels, predictions)).sum())
        self._weight += float(weights.sum())

    def result(self) -> float | None:
        return self._sum / self._weight if self._weight else None


def _brier(label: Label, at: float | None) -> Accumulator:
    """G. Brier, "Verification of Forecasts" (1950); for two classes half of it, which is the squared error of
    the positive class.
    """

    def squares(labels: np.ndarray, predictions: np.ndarray) -> np.ndarray:
        errors = predictions - np.eye(predictions.shape[1])[labels]
        return (errors**2).sum(axis=1) / (2 if label.task == "binary" else 1)

    return _Mean(squares)


def _top(label: Label, at: float | None) -> Accumulator:
    def is_among(labels: np.ndarray, predictions: np.ndarray) -> np.ndarray:
        own = predictions[np.arange(len(labels)), labels]
        return (predictions > own[:, None]).sum(axis=1) < at

    return _Mean(is_among)


def _percentage_error(label: Label, at: float | None) -> Accumulator:
    def errors(labels: np.ndarray, values: np.ndarray) -> np.ndarray:
        actual = labels.astype(np.float64)
        return np.abs(values - actual) / np.maximum(np.abs(actual), np.finfo(np.float64).eps)

    return _Mean(errors)


class _CalibrationError(Accumulator):
    """C. Guo and others, "On Calibration of Modern Neural Networks" (2017), equation 3.

    The mean difference between the confidence of predictions and how often they are right, over bins (lower,
    upper] of equal width.
    """

    def __init__(self, label: Label, bins: float | None) -> None:
        self._bins = int(bins or _BINS)
        # Rows: weights, weights of right predictions, weights times confidence.
        self._sums = np.zeros((3, self._bins))

    def update(self, labels: np.ndarray, predictions: np.ndarray, weights: np.ndarray) -> None:
        confidence, is_right = predictions.max(axis=1), predictions.argmax(axis=1) == labels
        bins = np.clip(np.ceil(confidence * self._bins).astype(np.int64) - 1, 0, self._bins - 1)
        for row, values in enumerate((weights, weights * is_right, weights * confidence)):
            self._sums[row] += np.bincount(bins, values, minlength=self._bins)

    def result(self) -> float | None:
        weights, right, confidence = self._sums
        return float(np.abs(right - confidence).sum() / weights.sum()) if weights.sum() else None


# --- Metrics of all examples at once: predictions are kept, as float32, until the end.


class Whole(Accumulator):
    """Calls a function of (labels [n], predictions float64 [n, …], weights float64 [n]) at the end."""

    def __init__(self, of: Callable[[np.ndarray, np.ndarray, np.ndarray], float | None]) -> None:
        self._of = of
        self._labels: list[np.ndarray] = []
        self._predictions: list[np.ndarray] = []
        self._weights: list[np.ndarray] = []

    def update(self, labels: np.ndarray, predictions: np.ndarray, weights: np.ndarray) -> None:
        self._labels.append(labels)
        self._predictions.append(predictions.astype(np.float32))  # as exact as the model gave them
        self._weights.append(weights)

    def result(self) -> float | None:
        if not self._labels:
            return None
        labels, weights = np.concatenate(self._labels), np.concatenate(self._weights)
        return self._of(labels, np.concatenate(self._predictions).astype(np.float64), weights)


def _ranked(of: Callable[[np.ndarray, np.ndarray], float]) -> _Make:
    """Makes a metric of the ranking by the second of two classes, or the mean over more classes."""

    def make(label: Label, at: float | None) -> Accumulator:
        def value(labels: np.ndarray, predictions: np.ndarray, weights: np.ndarray) -> float | None:
            found = []
            for positive in [1] if label.task == "binary" else range(len(label.classes)):
                is_positive = labels[:, positive] == 1 if label.shape else labels == positive
                falls = roc(is_positive, predictions[:, positive], weights)
                if falls[0][-1] and falls[1][-1]:
                    found.append(of(*falls))
            return float(np.mean(found)) if found else None

        return Whole(value)

    return make


def roc(is_positive: np.ndarray, scores: np.ndarray, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Weights of (false, true) positives while the threshold falls past each distinct score, starting at (0,
    0).
    """
    order = np.argsort(-scores, kind="stable")
    positive, weights = is_positive[order], weights[order]
    # Equal scores are one threshold: otherwise the file's order would decide the area.
    last_of_equal = np.append(np.diff(scores[order]) != 0, True)
    true_positives, false_positives = np.cumsum(weights * positive), np.cumsum(weights * ~positive)
    return np.append(0, false_positives[last_of_equal]), np.append(0, true_positives[last_of_equal])


def area_under(false_positives: np.ndarray, true_positives: np.ndarray) -> float:
    """The area under the curve that `roc` gives, where there are both kinds of examples."""
    area = np.trapezoid(true_positives, false_positives)
    return float(area / false_positives[-1] / true_positives[-1])


def _average_precision(false_positives: np.ndarray, true_positives: np.ndarray) -> float:
    """The area of steps below precision over recall; joining points by lines would be too optimistic.

    J. Davis and M. Goadrich, "The Relationship Between Precision-Recall and ROC Curves" (2006).
    """
    precision = share(true_positives, true_positives + false_positives)
    return float((np.diff(true_positives) * precision[1:]).sum() / true_positives[-1])


def _median_error(labels: np.ndarray, values: np.ndarray, weights: np.ndarray) -> float | None:
    """The weighted median of the errors; if half of the weights lie on each side of two errors, their
    mean.
    """
    if not weights.sum():
        return None
    errors = np.abs(values - labels.astype(np.float64))
    order = np.argsort(errors, kind="stable")
    errors, below = errors[order][weights[order] > 0], np.cumsum(weights[order][weights[order] > 0])
    middle = np.searchsorted(below, below[-1] / 2 * (1 - 1e-12))  # the sum may have been rounded down
    is_between = np.isclose(below[middle], below[-1] / 2, rtol=1e-12, atol=0.0) and middle + 1 < len(errors)
    return float(errors[middle : middle + 2].mean() if is_between else errors[middle])


def _explained_variance(labels: np.ndarray, values: np.ndarray, weights: np.ndarray) -> float | None:
    """Like R², but for errors less their mean, so a constant offset costs nothing."""
    if not weights.sum():
        return None
    actual = labels.astype(np.float64)
    if np.ptp(actual[weights > 0]) == 0:
        return None  # rounding could make it divide by almost 0
    variance, unexplained = _variance(actual, weights), _variance(actual - values, weights)
    return 1.0 - unexplained / variance if variance else None


def _variance(values: np.ndarray, weights: np.ndarray) -> float:
    return float(np.average((values - np.average(values, weights=weights)) ** 2, weights=weights))


def _largest_error(labels: np.ndarray, values: np.ndarray, weights: np.ndarray) -> float | None:
    counted = np.abs(values - labels.astype(np.float64))[weights > 0]
    return float(counted.max()) if len(counted) else None


_CLASSES = ("binary", "multiclass")
_SETS = (*_CLASSES, "multilabel")
THRESHOLD = "a threshold from 0 to 1 of the positive class, where there are two classes, or of each class"

METRICS: Mapping[str, Known] = {
    "f1": Known(make=_confused(_of_positive(_f1s)), tasks=_SETS, at=THRESHOLD),
    "precision": Known(make=_confused(_of_positive(_precisions)), tasks=_SETS, at=THRESHOLD),
    "recall": Known(make=_confused(_of_positive(_recalls)), tasks=_SETS, at=THRESHOLD),
    "balanced_accuracy": Known(make=_confused(_balanced_accuracy), tasks=_CLASSES, at=THRESHOLD),
    "kappa": Known(make=_confused(_kappa), tasks=_CLASSES, at=THRESHOLD),
    "mcc": Known(make=_confused(_matthews), tasks=_CLASSES, at=THRESHOLD),
    "pr_auc": Known(make=_ranked(_average_precision), tasks=_SETS),
    "roc_auc": Known(make=_ranked(area_under), tasks=_SETS),
    "ece": Known(make=_CalibrationError, tasks=_CLASSES, at="a number of bins", is_higher_better=False),
    "brier": Known(make=_brier, tasks=_CLASSES, is_higher_better=False),
    "top": Known(make=_top, tasks=("multiclass",), at="how many answers count", needs_at=True),
    "mape": Known(make=_percentage_error, tasks=("regression",), is_fraction=False, is_higher_better=False),
    "median_error": Known(
        make=lambda label, at: Whole(_median_error),
        tasks=("regression",),
        is_fraction=False,
        is_higher_better=False,
    ),
    "max_error": Known(
        make=lambda label, at: Whole(_largest_error),
        tasks=("regression",),
        is_fraction=False,
        is_higher_better=False,
    ),
    "explained_variance": Known(make=lambda label, at: Whole(_explained_variance), tasks=("regression",)),
}
