"""Classification, whose losses are cross-entropies in nats, and regression, whose loss is a squared error."""

import math

import keras
import numpy as np
import tensorflow as tf

from pipeline.data.schema.feature_types import Label
from pipeline.training.tasks.metrics import roc
from pipeline.training.tasks.task import LOSS, Metric, Task

# Clipped like in Keras: a certain but wrong prediction then costs 16 nats, not infinity.
_SMALLEST_PROBABILITY = 1e-7
_ROC_POINTS = 200
_LARGEST_CONFUSION_MATRIX = 200  # classes; with more, the page and the JSON would be mostly zeros
_TOP_5_FROM_CLASSES = 10

_ACCURACY = Metric(key="accuracy", name="accuracy", is_fraction=True, is_higher_better=True)
_TOP_5 = Metric(key="top_5_accuracy", name="top-5 accuracy", is_fraction=True, is_higher_better=True)


class Multiclass(Task):
    """One of two or more classes: a logit for each, and softmax probabilities."""

    metrics = (_ACCURACY, _TOP_5, LOSS)
    has_accuracy = True
    can_be_smoothed = True
    has_weighted_metrics = True

    def logged(self, label: Label) -> tuple[str, ...]:
        has_top_5 = len(label.classes) >= _TOP_5_FROM_CLASSES
        return tuple(name for name in super().logged(label) if name != _TOP_5.key or has_top_5)

    def logits(self, label: Label) -> int:
        return len(label.classes)

    def losses(self, labels: tf.Tensor, logits: tf.Tensor) -> tf.Tensor:
        return keras.losses.sparse_categorical_crossentropy(labels, logits, from_logits=True)

    def losses_of_no_class(self, logits: tf.Tensor) -> tf.Tensor:
        return -tf.reduce_mean(tf.nn.log_softmax(logits), axis=-1)

    def hits(self, labels: tf.Tensor, logits: tf.Tensor) -> tf.Tensor:
        return tf.cast(tf.argmax(logits, axis=-1, output_type=tf.int32) == labels, tf.float32)

    def predictions(self, logits: tf.Tensor) -> tf.Tensor:
        """Probabilities, float32 [batch, classes]."""
        return tf.nn.softmax(logits)

    def accumulator(self, label: Label) -> "_ClassCounts":
        return _ClassCounts(len(label.classes))


def cross_entropies_of_halves(logits: tf.Tensor) -> tf.Tensor:
    """Mean cross-entropies of float32 logits [batch, n] with labels that are half true: float32 [batch]."""
    return keras.losses.binary_crossentropy(tf.fill(tf.shape(logits), 0.5), logits, from_logits=True)


class Binary(Task):
    """Two classes, the positive one second: one logit, and the probabilities of both."""

    metrics = (Metric(key="auc", name="ROC AUC", is_fraction=True, is_higher_better=True), _ACCURACY, LOSS)
    has_accuracy = True
    can_be_smoothed = True
    has_weighted_metrics = True

    def logits(self, label: Label) -> int:
        return 1

    def losses(self, labels: tf.Tensor, logits: tf.Tensor) -> tf.Tensor:
        targets = tf.cast(labels, tf.float32)[:, None]  # (batch, 1)
        return keras.losses.binary_crossentropy(targets, logits, from_logits=True)

    def losses_of_no_class(self, logits: tf.Tensor) -> tf.Tensor:
        return cross_entropies_of_halves(logits)

    def hits(self, labels: tf.Tensor, logits: tf.Tensor) -> tf.Tensor:
        return tf.cast((logits[:, 0] > 0) == (labels == 1), tf.float32)

    def predictions(self, logits: tf.Tensor) -> tf.Tensor:
        """Probabilities, float32 [batch, 2]."""
        # It is not 1 - p, which near 1 would keep no digits of the rarer class.
        return tf.nn.sigmoid(tf.concat([-logits, logits], axis=1))

    def accumulator(self, label: Label) -> "_RankedClassCounts":
        return _RankedClassCounts(len(label.classes))


class _ClassCounts:
    """Loss, accuracy and confusion matrix; the matrix counts examples, whatever they weigh."""

    def __init__(self, classes: int) -> None:
        self._weight = self._loss = self._right = self._top_5 = 0.0
        self._confusion = np.zeros((classes, classes), np.int64)  # (actual, predicted)

    def update(self, labels: np.ndarray, predictions: np.ndarray, weights: np.ndarray | None = None) -> None:
        weights = np.ones(len(labels)) if weights is None else weights
        predicted, own = predictions.argmax(axis=1), predictions[np.arange(len(labels)), labels]
        self._weight += float(weights.sum())
        self._loss += float((weights * cross_entropies(own)).sum())
        self._right += float(weights[predicted == labels].sum())
        self._top_5 += float(weights[(predictions > own[:, None]).sum(axis=1) < 5].sum())
        np.add.at(self._confusion, (labels, predicted), 1)

    def result(self) -> dict:
        summary = {"loss": self._loss / self._weight, "accuracy": self._right / self._weight}
        if len(self._confusion) >= _TOP_5_FROM_CLASSES:
            summary[_TOP_5.key] = self._top_5 / self._weight
        if len(self._confusion) <= _LARGEST_CONFUSION_MATRIX:
            summary["confusion_matrix"] = self._confusion.tolist()
        return summary


class _RankedClassCounts(_ClassCounts):
    """Accumulates the same for two classes, and also measures how well the examples are ranked."""

    def __init__(self, classes: int) -> None:
        super().__init__(classes)
        self._labels: list[np.ndarray] = []
        self._scores: list[np.ndarray] = []
        self._weights: list[np.ndarray] = []

    def update(self, labels: np.ndarray, predictions: np.ndarray, weights: np.ndarray | None = None) -> None:
        super().update(labels, predictions, weights)
        self._labels.append(labels)
        self._scores.append(predictions[:, 1])
        self._weights.append(np.ones(len(labels)) if weights is None else weights)

    def result(self) -> dict:
        labels, scores, weights = map(np.concatenate, (self._labels, self._scores, self._weights))
        false_positives, true_positives = roc(labels == 1, scores, weights)
        if not (false_positives[-1] and true_positives[-1]):
            return super().result()  # with only one class there is no ranking
        x, y = false_positives / false_positives[-1], true_positives / true_positives[-1]
        points = np.unique(np.linspace(0, len(x) - 1, _ROC_POINTS).round().astype(int))
        curve = {"false_positive_rate": x[points].tolist(), "true_positive_rate": y[points].tolist()}
        return super().result() | {"auc": float(np.trapezoid(y, x)), "roc": curve}


def cross_entropies(own: np.ndarray) -> np.ndarray:
    """Returns the losses in nats, [n, …], from the probabilities [n, …] of the true answers."""
    return -np.log(np.clip(own, _SMALLEST_PROBABILITY, 1.0))


# --- Regression: one number for each example. The loss is the squared error.


_SCATTER_POINTS = 1_000


class Regression(Task):
    """One logit, which is the predicted value itself."""

    metrics = (
        Metric(key="rmse", name="RMSE"),
        Metric(key="mae", name="MAE"),
        Metric(key="r2", name="R²", is_fraction=True, is_higher_better=True),
    )

    has_weighted_metrics = True

    def logits(self, label: Label) -> int:
        return 1

    def losses(self, labels: tf.Tensor, logits: tf.Tensor) -> tf.Tensor:
        return keras.losses.mean_squared_error(tf.cast(labels, tf.float32)[:, None], logits)

    def predictions(self, logits: tf.Tensor) -> tf.Tensor:
        """Values, float32 [batch]."""
        return logits[:, 0]

    def accumulator(self, label: Label) -> "SquaredErrors":
        return SquaredErrors()


class SquaredErrors:
    """Squared and absolute errors, the explained variance, and points of a scatter plot."""

    def __init__(self) -> None:
        self._labels: list[np.ndarray] = []
        self._values: list[np.ndarray] = []
        self._weights: list[np.ndarray] = []

    def update(self, labels: np.ndarray, predictions: np.ndarray, weights: np.ndarray | None = None) -> None:
        self._weights.append(np.ones(len(labels)) if weights is None else weights)
        self._labels.append(labels.astype(np.float64))
        self._values.append(predictions.reshape(len(labels)))

    def relative_loss(self) -> float:
        """The mean squared error in units of the labels' variance; 0 where they do not vary: such labels have
        no unit, and one in those of the file would outweigh all other targets.
        """
        mse, variance = self._moments()
        return mse / variance if variance else 0.0

    def _moments(self) -> tuple[float, float]:
        """The mean squared error, and the variance of the labels; exactly 0 where all that count are equal,
        though their weighted mean is rounded.
        """
        labels, values, weights = map(np.concatenate, (self._labels, self._values, self._weights))
        mse = float(np.average((values - labels) ** 2, weights=weights))
        if np.ptp(labels[weights > 0]) == 0:
            return mse, 0.0
        mean = np.average(labels, weights=weights)
        return mse, float(np.average((labels - mean) ** 2, weights=weights))

    def result(self) -> dict:
        labels, values, weights = map(np.concatenate, (self._labels, self._values, self._weights))
        mse, variance = self._moments()
        points = np.unique(np.linspace(0, len(labels) - 1, _SCATTER_POINTS).round().astype(int))
        return {
            "loss": mse,
            "rmse": math.sqrt(mse),
            "mae": float(np.average(np.abs(values - labels), weights=weights)),
            "r2": 1.0 - mse / variance if variance else 0.0,
            "predicted_vs_actual": np.stack([values[points], labels[points]], axis=1).tolist(),
        }
