"""Regression: one number for each example. The loss is the squared error."""

import math

import keras
import numpy as np
import tensorflow as tf

from pipeline.data.schema.kinds import Label
from pipeline.training.tasks.task import Metric, Task

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

    def accumulator(self, label: Label) -> "_Errors":
        return _Errors()


class _Errors:
    """Squared and absolute errors, the explained variance, and points of a scatter plot."""

    def __init__(self) -> None:
        self._labels: list[np.ndarray] = []
        self._values: list[np.ndarray] = []
        self._weights: list[np.ndarray] = []

    def update(self, labels: np.ndarray, predictions: np.ndarray, weights: np.ndarray | None = None) -> None:
        self._weights.append(np.ones(len(labels)) if weights is None else weights)
        self._labels.append(labels.astype(np.float64))
        self._values.append(predictions.reshape(len(labels)))

    def result(self) -> dict:
        labels, values, weights = map(np.concatenate, (self._labels, self._values, self._weights))
        errors, mean = values - labels, np.average(labels, weights=weights)
        mse = float(np.average(errors**2, weights=weights))
        variance = float(np.average((labels - mean) ** 2, weights=weights))
        shown = np.unique(np.linspace(0, len(labels) - 1, _SCATTER_POINTS).round().astype(int))
        return {
            "loss": mse,
            "rmse": math.sqrt(mse),
            "mae": float(np.average(np.abs(errors), weights=weights)),
            "r2": 1.0 - mse / variance if variance else 0.0,
            "predicted_vs_actual": np.stack([values[shown], labels[shown]], axis=1).tolist(),
        }
