"""Metrics of an evaluation, added up on the host so that they are exact under every strategy.

The training loop's own evaluation and that of an exported model both use these.
"""

import math
from typing import Protocol

import numpy as np

from pipeline.data.features import Label
from pipeline.training.heads import head_predictions

__all__ = ["EvaluationMetrics", "head_predictions"]

SMALLEST_PROBABILITY = 1e-7  # as Keras clips; a wrong certainty then costs 16 nats, not infinity
ROC_POINTS = 200
SCATTER_POINTS = 1_000
LARGEST_CONFUSION_MATRIX = 200  # classes; beyond, the page and the JSON would be mostly zeros
TOP_5_FROM_CLASSES = 10


class EvaluationMetrics:
    """Takes batches of labels and predictions, gives a JSON-able summary."""

    def __init__(self, label: Label) -> None:
        self._label = label
        self._examples = 0
        kinds = {"binary": _Binary, "multiclass": _Multiclass, "regression": _Regression}
        self._task: _Task = kinds[label.task](len(label.classes))

    def update(self, labels: np.ndarray, predictions: np.ndarray, mask: np.ndarray | None = None) -> None:
        """Adds a batch.

        Args:
          labels: [batch], class indices or values.
          predictions: probabilities [batch, classes], or values [batch] for regression.
          mask: [batch], 0 where an example is padding; None: none is.
        """
        keep = slice(None) if mask is None else np.asarray(mask) > 0
        kept = np.asarray(labels)[keep]
        self._examples += len(kept)
        self._task.update(kept, np.asarray(predictions, np.float64)[keep])

    def result(self) -> dict:
        """The metrics over all examples so far; `loss` is in nats, or squared units of the label."""
        summary = {"task": self._label.task, "examples": self._examples}
        if self._label.classes:
            summary["classes"] = list(self._label.classes)
        return summary | (self._task.result() if self._examples else {})


class _Task(Protocol):
    def update(self, labels: np.ndarray, predictions: np.ndarray) -> None: ...

    def result(self) -> dict: ...


class _Multiclass:
    def __init__(self, classes: int) -> None:
        self._loss = 0.0
        self._top_5 = 0
        self._confusion = np.zeros((classes, classes), np.int64)  # (actual, predicted)

    def update(self, labels: np.ndarray, predictions: np.ndarray) -> None:
        self._loss += _cross_entropy(labels, predictions)
        np.add.at(self._confusion, (labels, predictions.argmax(axis=1)), 1)
        own = predictions[np.arange(len(labels)), labels]
        self._top_5 += int(((predictions > own[:, None]).sum(axis=1) < 5).sum())

    def result(self) -> dict:
        examples = int(self._confusion.sum())
        summary = {"loss": self._loss / examples, "accuracy": float(np.trace(self._confusion)) / examples}
        if len(self._confusion) >= TOP_5_FROM_CLASSES:
            summary["top_5_accuracy"] = self._top_5 / examples
        if len(self._confusion) <= LARGEST_CONFUSION_MATRIX:
            summary["confusion_matrix"] = self._confusion.tolist()
        return summary


class _Binary(_Multiclass):
    """A multiclass task of two classes, and the ranking of its examples."""

    def __init__(self, classes: int) -> None:
        super().__init__(classes)
        self._labels: list[np.ndarray] = []
        self._scores: list[np.ndarray] = []

    def update(self, labels: np.ndarray, predictions: np.ndarray) -> None:
        super().update(labels, predictions)
        self._labels.append(labels)
        self._scores.append(predictions[:, 1])

    def result(self) -> dict:
        false_positives, true_positives = _roc(np.concatenate(self._labels), np.concatenate(self._scores))
        if not (false_positives[-1] and true_positives[-1]):
            return super().result()  # one class alone has no ranking
        x, y = false_positives / false_positives[-1], true_positives / true_positives[-1]
        shown = np.unique(np.linspace(0, len(x) - 1, ROC_POINTS).round().astype(int))
        roc = {"false_positive_rate": x[shown].tolist(), "true_positive_rate": y[shown].tolist()}
        return super().result() | {"auc": float(np.trapezoid(y, x)), "roc": roc}


class _Regression:
    def __init__(self, classes: int) -> None:
        self._labels: list[np.ndarray] = []
        self._values: list[np.ndarray] = []

    def update(self, labels: np.ndarray, predictions: np.ndarray) -> None:
        self._labels.append(labels.astype(np.float64))
        self._values.append(predictions.reshape(len(labels)))

    def result(self) -> dict:
        labels, values = np.concatenate(self._labels), np.concatenate(self._values)
        errors = values - labels
        mse, variance = float(np.mean(errors**2)), float(np.var(labels))
        shown = np.unique(np.linspace(0, len(labels) - 1, SCATTER_POINTS).round().astype(int))
        return {
            "loss": mse,
            "rmse": math.sqrt(mse),
            "mae": float(np.mean(np.abs(errors))),
            "r2": 1.0 - mse / variance if variance else 0.0,
            "predicted_vs_actual": np.stack([values[shown], labels[shown]], axis=1).tolist(),
        }


def _cross_entropy(labels: np.ndarray, probabilities: np.ndarray) -> float:
    """Sum over the batch, in nats."""
    own = probabilities[np.arange(len(labels)), labels]
    return float(-np.log(np.clip(own, SMALLEST_PROBABILITY, 1.0)).sum())


def _roc(labels: np.ndarray, scores: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Counts of (false, true) positives as the threshold falls past each different score, from (0, 0)."""
    order = np.argsort(-scores, kind="stable")
    positive = labels[order] == 1
    # Equal scores are one threshold: otherwise the file's order would decide the area.
    last_of_equal = np.append(np.diff(scores[order]) != 0, True)
    true_positives, false_positives = np.cumsum(positive), np.cumsum(~positive)
    return np.append(0, false_positives[last_of_equal]), np.append(0, true_positives[last_of_equal])
