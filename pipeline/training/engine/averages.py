"""Exponential moving averages of a model's weights, which are evaluated and exported in their place."""

import contextlib
from collections.abc import Iterator, Sequence

import keras
import numpy as np
import tensorflow as tf

from pipeline.data.errors import InputError


class Averages:
    """Averages of the trainable weights; the moving statistics of BatchNormalization are averages already.

    Step t's decay is min(`decay`, (1 + t) / (10 + t)), as tf.train.ExponentialMovingAverage has it: so the
    start, which says nothing, is forgotten soon. Make it under the model's strategy.
    """

    def __init__(self, model: keras.Model, *, decay: float) -> None:
        self._decay = decay
        self._weights = model.trainable_variables
        self.variables: Sequence[keras.Variable] = [_copy(each) for each in self._weights]

    def begin(self) -> None:
        """Takes the weights as they are: what was averaged before is forgotten."""
        for average, weight in zip(self.variables, self._weights, strict=True):
            average.assign(np.asarray(weight))

    def update(self, *, before: tf.Tensor, after: tf.Tensor) -> None:
        """Takes the new weights in. Call it in a replica's context.

        Args:
          before: steps done before this one.
          after: steps done now; as many as before where the step was skipped, which changes nothing.
        """
        done = tf.cast(after, tf.float32)
        rest = 1.0 - tf.minimum(self._decay, (1.0 + done) / (10.0 + done))
        rest *= tf.cast(after - before, tf.float32)
        for average, weight in zip(self.variables, self._weights, strict=True):
            value = tf.convert_to_tensor(average.value)
            average.assign(value + rest * (tf.convert_to_tensor(weight.value) - value))

    @contextlib.contextmanager
    def in_place(self) -> Iterator[None]:
        """Within it the model has the averages as weights. What changes them there changes the averages."""
        trained = [np.asarray(each) for each in self._weights]
        self.take_place()
        try:
            yield
            for average, weight in zip(self.variables, self._weights, strict=True):
                average.assign(np.asarray(weight))
        finally:
            for weight, value in zip(self._weights, trained, strict=True):
                weight.assign(value)

    def take_place(self) -> None:
        """Makes the averages the model's weights, for good."""
        for average, weight in zip(self.variables, self._weights, strict=True):
            weight.assign(np.asarray(average))


def build(decay: float, model: keras.Model) -> Averages | None:
    """Averages of this decay; None where it is 0. Raises InputError where it is none."""
    if not 0 <= decay < 1:
        raise InputError(
            "--config.optimizer.ema",
            received=decay,
            expected="a decay from 0 (no averages) to below 1, such as 0.999",
            action="Correct it in the config file or on the command line.",
        )
    return Averages(model, decay=decay) if decay else None


def _copy(weight: keras.Variable) -> keras.Variable:
    return keras.Variable(
        np.asarray(weight),
        trainable=False,
        dtype=weight.dtype,
        name="average",
        aggregation="only_first_replica",  # all have the same
    )
