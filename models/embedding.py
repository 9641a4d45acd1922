"""Embeddings of categorical columns through one table, which may have millions of rows."""

import math
from collections.abc import Callable, Sequence

import keras
import numpy as np

Initializer = Callable[..., keras.KerasTensor]
_LARGE = 1 << 24  # numbers of a table, from which on its copies matter


@keras.saving.register_keras_serializable("penstock")
class OffsetEmbedding(keras.layers.Layer):
    """Embeds several categorical columns through one table, so that one gather serves them all.

    Column c's id i is row `sum(cardinalities[:c]) + i` of the table.
    int32 [batch, columns] → float [batch, columns, size].

    The rows are gathered from the variable itself, so nothing else of the table is read: training can then
    change only these rows (pipeline/training/engine/rows.py). A read of the whole variable would copy it
    after every such change (TensorFlow 2.21, measured).
    """

    def __init__(self, cardinalities: Sequence[int], size: int, *, initializer: str = "uniform", **kwargs):
        super().__init__(**kwargs)
        self.cardinalities = tuple(cardinalities)
        self.size = size
        self.initializer = initializer
        self._offsets = np.cumsum([0, *self.cardinalities[:-1]], dtype=np.int32)

    def build(self, input_shape: tuple[int | None, ...]) -> None:
        shape = (sum(self.cardinalities), self.size)
        # No autocast: in mixed precision it would cast the whole table before each gather.
        begin = _in_one_piece(keras.initializers.get(self.initializer), shape)
        self.table = self.add_weight(shape=shape, initializer=begin, name="table", autocast=False)

    def call(self, ids: keras.KerasTensor) -> keras.KerasTensor:
        gathered = _rows(self.table.value, ids + self._offsets)
        return keras.ops.cast(gathered, self.compute_dtype)

    def compute_output_shape(self, input_shape: tuple[int | None, ...]) -> tuple[int | None, ...]:
        return (*input_shape, self.size)

    def get_config(self) -> dict:
        own = {"cardinalities": self.cardinalities, "size": self.size, "initializer": self.initializer}
        return {**super().get_config(), **own}


def _in_one_piece(initializer: Initializer, shape: tuple[int, int]) -> Initializer:
    """The same numbers, drawn without copies of a large table.

    Keras (3.15) draws on TensorFlow in three steps, and TensorFlow keeps the memory of each: 10,000,000 rows
    of 16 numbers took 2.0 GB in place of 0.64 GB.
    """
    is_uniform = isinstance(initializer, keras.initializers.RandomUniform)
    if not is_uniform or math.prod(shape) < _LARGE or keras.backend.backend() != "tensorflow":
        return initializer
    import tensorflow as tf

    def drawn(shape: tuple[int, int], dtype: str | None = None) -> tf.Tensor:
        # A constant seed would have TensorFlow draw twice: once while it optimises the function.
        def draw(seed: tf.Tensor) -> tf.Tensor:
            return tf.random.stateless_uniform(shape, seed, initializer.minval, initializer.maxval, dtype)

        return tf.function(draw)(tf.constant([initializer.seed % (2**31 - 2), 0]))

    return drawn


def _rows(table: object, ids: keras.KerasTensor) -> keras.KerasTensor:
    # Where Keras computes without state, `table` is a tensor. Else it is a variable with a copy on each
    # replica, and only a copy can be read by rows (TensorFlow 2.21).
    copy = table._get() if hasattr(table, "_get") else table
    return copy.sparse_read(ids) if hasattr(copy, "sparse_read") else keras.ops.take(table, ids, axis=0)
