"""Batches of a tf.data dataset, for a benchmark that reads them as a training loop does."""

from collections.abc import Iterator

import tensorflow as tf


class GraphBatches(Iterator):
    """An iterator that can also step over batches inside a graph.

    A training loop takes many batches in one call of a graph. Taken one at a time from Python a batch costs
    some 100 µs more, whoever made it: half of all that a mapped batch of 1,024 rows costs.
    """

    def __init__(self, dataset: tf.data.Dataset) -> None:
        self._batches = iter(dataset)
        self._step_over = tf.function(_step_over).get_concrete_function(
            self._batches, tf.TensorSpec([], tf.int64)
        )

    def __next__(self) -> tuple:
        return next(self._batches)

    def step_over(self, batches: int) -> int:
        """Reads `batches` batches; returns how many examples they held."""
        return int(self._step_over(self._batches, tf.constant(batches, tf.int64)))


def _step_over(batches: Iterator[tuple], count: tf.Tensor) -> tf.Tensor:
    examples = tf.constant(0, tf.int64)
    for _ in tf.range(count):
        examples += tf.shape(next(batches)[0], tf.int64)[0]
    return examples
