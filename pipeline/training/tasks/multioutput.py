"""Tasks of several answers an example: the classes that it has (multilabel), and several numbers."""

import keras
import numpy as np
import tensorflow as tf

from pipeline.data.schema.feature_types import Label
from pipeline.training.tasks.classification import SquaredErrors, cross_entropies, cross_entropies_of_halves
from pipeline.training.tasks.metrics import area_under, roc, share
from pipeline.training.tasks.task import LOSS, Metric, Task

_MOST_LISTED = 200  # classes, as of a confusion matrix

# --- Multilabel: each class is there or not, whatever the others are.


class Multilabel(Task):
    """A logit and a probability for each class. The loss is the mean of the classes' cross-entropies.

    As a mean it does not grow with the number of classes. A class is the answer where its probability is
    above 0.5; an example is right where all its classes are, and no other one.
    """

    metrics = (
        Metric(key="auc", name="mean ROC AUC", is_fraction=True, is_higher_better=True),
        Metric(key="micro_f1", name="micro F1", is_fraction=True, is_higher_better=True),
        Metric(key="macro_f1", name="macro F1", is_fraction=True, is_higher_better=True),
        Metric(key="accuracy", name="exact match", is_fraction=True, is_higher_better=True),
        LOSS,
    )
    has_accuracy = True
    can_be_smoothed = True
    has_weighted_metrics = True

    def logits(self, label: Label) -> int:
        return len(label.classes)

    def losses(self, labels: tf.Tensor, logits: tf.Tensor) -> tf.Tensor:
        return keras.losses.binary_crossentropy(tf.cast(labels, tf.float32), logits, from_logits=True)

    def losses_of_no_class(self, logits: tf.Tensor) -> tf.Tensor:
        return cross_entropies_of_halves(logits)

    def hits(self, labels: tf.Tensor, logits: tf.Tensor) -> tf.Tensor:
        return tf.cast(tf.reduce_all((logits > 0) == (labels == 1), axis=-1), tf.float32)

    def predictions(self, logits: tf.Tensor) -> tf.Tensor:
        """Probabilities, float32 [batch, classes], each from 0 to 1: they do not add up to 1."""
        return tf.nn.sigmoid(logits)

    def accumulator(self, label: Label) -> "_ClassSets":
        return _ClassSets(label)


class _ClassSets:
    """Loss, exact matches, and F1 and ROC AUC of each class.

    Conventions are scikit-learn's: a class that is neither there nor answered has an F1 of 0. The mean of the
    ROC AUC is over the classes that some examples have and others have not.
    """

    def __init__(self, label: Label) -> None:
        self._names, classes = label.classes, len(label.classes)
        self._weight = self._loss = self._right = 0.0
        self._both, self._answered, self._there = np.zeros((3, classes))  # weights, by class
        self._labels: list[np.ndarray] = []
        self._scores: list[np.ndarray] = []
        self._weights: list[np.ndarray] = []

    def update(self, labels: np.ndarray, predictions: np.ndarray, weights: np.ndarray | None = None) -> None:
        weights = np.ones(len(labels)) if weights is None else weights
        is_there, is_answer = labels == 1, predictions > 0.5
        losses = cross_entropies(np.where(is_there, predictions, 1.0 - predictions)).mean(axis=1)
        self._weight += float(weights.sum())
        self._loss += float((weights * losses).sum())
        self._right += float(weights[(is_there == is_answer).all(axis=1)].sum())
        self._both += weights @ (is_there & is_answer)
        self._answered += weights @ is_answer
        self._there += weights @ is_there
        self._labels.append(is_there)
        self._scores.append(predictions.astype(np.float32))  # as the model gave them
        self._weights.append(weights)

    def result(self) -> dict:
        f1 = share(2 * self._both, self._answered + self._there)
        micro = share(2 * self._both.sum(), self._answered.sum() + self._there.sum())
        areas = self._areas()
        known = [area for area in areas if area is not None]
        rates = self._there / self._weight
        each = {
            name: {"rate": float(rates[at]), "f1": float(f1[at]), "auc": areas[at]}
            for at, name in enumerate(self._names[:_MOST_LISTED])
        }
        return {
            "loss": self._loss / self._weight,
            "accuracy": self._right / self._weight,
            "micro_f1": float(micro),
            "macro_f1": float(f1.mean()),
            **({"auc": float(np.mean(known))} if known else {}),
            **({"per_class": each} if len(self._names) <= _MOST_LISTED else {}),
        }

    def _areas(self) -> list[float | None]:
        labels, scores, weights = map(np.concatenate, (self._labels, self._scores, self._weights))
        falls = (roc(labels[:, at], scores[:, at], weights) for at in range(labels.shape[1]))
        return [area_under(*each) if each[0][-1] and each[1][-1] else None for each in falls]


# --- Several numbers: the loss is the mean of their squared errors, each in a unit of its own.


class Multitarget(Task):
    """A logit for each target, which is its predicted value itself.

    Training divides labels and logits by the targets' standard deviations (`Objective.units`), so that none
    counts more for its unit. An evaluation takes the deviations of the labels that it sees: its loss is
    1 less the mean R².
    """

    metrics = (
        Metric(key="r2", name="mean R²", is_fraction=True, is_higher_better=True),
        Metric(key="rmse", name="mean RMSE"),
        Metric(key="mae", name="mean MAE"),
        LOSS,
    )
    has_weighted_metrics = True

    def metrics_of(self, label: Label) -> tuple[Metric, ...]:
        own = (
            Metric(
                key=f"{key}_{name}",
                name=f"{title} of {name}",
                is_fraction=key == "r2",
                is_higher_better=key == "r2",
            )
            for name in label.parts
            for key, title in _OF_TARGET.items()
        )
        return (*self.metrics, *own)

    def logits(self, label: Label) -> int:
        return len(label.parts)

    def losses(self, labels: tf.Tensor, logits: tf.Tensor) -> tf.Tensor:
        return keras.losses.mean_squared_error(tf.cast(labels, tf.float32), logits)

    def predictions(self, logits: tf.Tensor) -> tf.Tensor:
        """Values, float32 [batch, targets]."""
        return logits

    def accumulator(self, label: Label) -> "_TargetErrors":
        return _TargetErrors(label)


_OF_TARGET = {"rmse": "RMSE", "mae": "MAE", "r2": "R²"}


class _TargetErrors:
    """RMSE, MAE and R² of each target, and their means over the targets."""

    def __init__(self, label: Label) -> None:
        self._targets = {name: SquaredErrors() for name in label.parts}

    def update(self, labels: np.ndarray, predictions: np.ndarray, weights: np.ndarray | None = None) -> None:
        for at, target in enumerate(self._targets.values()):
            target.update(labels[:, at], predictions[:, at], weights)

    def result(self) -> dict:
        found = {name: target.result() for name, target in self._targets.items()}
        means = {key: float(np.mean([each[key] for each in found.values()])) for key in _OF_TARGET}
        of_each = {f"{key}_{name}": each[key] for name, each in found.items() for key in _OF_TARGET}
        loss = float(np.mean([target.relative_loss() for target in self._targets.values()]))
        table = {name: {key: each[key] for key in _OF_TARGET} for name, each in found.items()}
        return {"loss": loss, **means, **of_each, "per_target": table}
