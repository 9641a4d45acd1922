"""Wide & deep (Cheng et al. 2016, "Wide & Deep Learning for Recommender Systems") for tabular data and text.

The wide part is linear in the category ids and numbers; the deep part is a multilayer perceptron over
embeddings of them. Their logits are added.
"""

import math
from collections.abc import Mapping, Sequence

import keras
import numpy as np


@keras.saving.register_keras_serializable("penstock")
class OffsetEmbedding(keras.layers.Layer):
    """Embeds several categorical columns through one table, so that one gather serves them all.

    Column c's id i is row `sum(cardinalities[:c]) + i` of the table.
    int32 [batch, columns] → float [batch, columns, size].
    """

    def __init__(self, cardinalities: Sequence[int], size: int, *, initializer: str = "uniform", **kwargs):
        super().__init__(**kwargs)
        self.cardinalities = tuple(cardinalities)
        self.size = size
        self.initializer = initializer
        self._offsets = np.cumsum([0, *self.cardinalities[:-1]], dtype=np.int32)

    def build(self, input_shape: tuple[int | None, ...]) -> None:
        shape = (sum(self.cardinalities), self.size)
        self.table = self.add_weight(shape=shape, initializer=self.initializer, name="table")

    def call(self, ids: keras.KerasTensor) -> keras.KerasTensor:
        return keras.ops.take(self.table, ids + self._offsets, axis=0)

    def compute_output_shape(self, input_shape: tuple[int | None, ...]) -> tuple[int | None, ...]:
        return (*input_shape, self.size)

    def get_config(self) -> dict:
        own = {"cardinalities": self.cardinalities, "size": self.size, "initializer": self.initializer}
        return {**super().get_config(), **own}


@keras.saving.register_keras_serializable("penstock")
class PeriodicFeatures(keras.layers.Layer):
    """Each number, and its sines and cosines at `frequencies` learned frequencies.

    Gorishniy et al. 2022, "On Embeddings for Numerical Features in Tabular Deep Learning": a perceptron alone
    is too smooth for the thresholds in such data. float32 [batch, n] → [batch, n * (1 + 2 * frequencies)].
    """

    def __init__(self, frequencies: int, **kwargs) -> None:
        super().__init__(**kwargs)
        self.frequencies = frequencies

    def build(self, input_shape: tuple[int | None, ...]) -> None:
        # Standard deviation 1: inputs are standardised, so this starts at about one period each.
        initializer = keras.initializers.RandomNormal(stddev=1.0)
        shape = (input_shape[-1], self.frequencies)
        self.frequency = self.add_weight(shape=shape, initializer=initializer, name="frequency")

    def call(self, numbers: keras.KerasTensor) -> keras.KerasTensor:
        column = keras.ops.expand_dims(numbers, -1)  # (batch, n, 1)
        angle = 2.0 * math.pi * column * self.frequency  # (batch, n, frequencies)
        waves = keras.ops.concatenate([column, keras.ops.sin(angle), keras.ops.cos(angle)], axis=-1)
        return keras.ops.reshape(waves, self.compute_output_shape((-1, numbers.shape[-1])))

    def compute_output_shape(self, input_shape: tuple[int | None, ...]) -> tuple[int | None, ...]:
        return (*input_shape[:-1], input_shape[-1] * (1 + 2 * self.frequencies))

    def get_config(self) -> dict:
        return {**super().get_config(), "frequencies": self.frequencies}


def wide_deep(
    *,
    numeric: int,
    cardinalities: Sequence[int],
    sequences: Mapping[str, tuple[int, int]],
    outputs: int,
    embedding: int = 16,
    frequencies: int = 8,
    hidden: Sequence[int] = (256, 128),
    dropout: float = 0.1,
) -> keras.Model:
    """Builds the network over whatever inputs there are.

    Args:
      numeric: standardised numbers of each example; 0: none.
      cardinalities: number of different ids in each categorical column.
      sequences: (length, number of ids) of each sequence of ids, by input name; id 0 is padding.
      outputs: numbers predicted for each example.
      embedding: size of a category's or word's embedding.
      frequencies: periodic features of each number in the deep part; 0: the numbers alone.
      hidden: units of each hidden layer of the deep part.
      dropout: fraction of each hidden layer dropped in training.

    Returns:
      Model from {"numeric": float32 [batch, numeric], "categories": int32 [batch, columns],
      name: int32 [batch, length]} to float32 logits [batch, outputs].

    Raises:
      ValueError: there is nothing to predict from, or `frequencies` is below 0.
    """
    if frequencies < 0:
        raise ValueError(f"frequencies: received {frequencies}; expected 0, for none, or more.")
    inputs, deep, wide = [], [], []
    if numeric:
        numbers = keras.Input((numeric,), dtype="float32", name="numeric")
        inputs.append(numbers)
        # float32: an angle of several turns in bfloat16 is off by degrees.
        periodic = PeriodicFeatures(frequencies, dtype="float32", name="periodic")
        deep.append(periodic(numbers) if frequencies else numbers)
        wide.append(
            keras.layers.Dense(outputs, dtype="float32", use_bias=False, name="wide_numeric")(numbers)
        )
    if cardinalities:
        ids = keras.Input((len(cardinalities),), dtype="int32", name="categories")
        inputs.append(ids)
        deep.append(keras.layers.Flatten()(OffsetEmbedding(cardinalities, embedding, name="embeddings")(ids)))
        wide.append(linear_of_ids(ids, cardinalities, outputs))
    for name, (length, size) in sequences.items():
        words = keras.Input((length,), dtype="int32", name=name)
        inputs.append(words)
        deep.append(mean_embedding(words, size, embedding))
    if not inputs:
        raise ValueError("wide_deep needs numeric, categorical or sequence inputs and received none.")
    logits = [*wide, _perceptron(deep, hidden, dropout, outputs)]
    return keras.Model(inputs, keras.layers.Add(dtype="float32", name="logits")(logits), name="wide_deep")


def linear_of_ids(
    ids: keras.KerasTensor, cardinalities: Sequence[int], outputs: int, *, name: str = "wide"
) -> keras.KerasTensor:
    """Sums weights of the ids, which begin as 0: int32 [batch, columns] → float32 [batch, outputs]."""
    # float32: a sum over many columns in bfloat16 would keep 8 bits. Zeros: the wide part starts silent.
    table = OffsetEmbedding(cardinalities, outputs, initializer="zeros", dtype="float32", name=name)
    return keras.ops.sum(table(ids), axis=1)  # (batch, outputs)


def mean_embedding(words: keras.KerasTensor, size: int, embedding: int) -> keras.KerasTensor:
    """The mean embedding of a text's words: int32 [batch, length] → float [batch, embedding]."""
    embedded = keras.layers.Embedding(size, embedding, name=f"{words.name}_embedding")(words)
    present = _present(words)  # (batch, length)
    # A text without words gives 0. Keras's pooling would divide by none.
    count = keras.ops.maximum(keras.ops.sum(present, axis=1, keepdims=True), 1.0)
    share = keras.ops.cast(present / count, embedded.dtype)
    return keras.ops.sum(embedded * share[:, :, None], axis=1)  # (batch, embedding)


def _present(words: keras.KerasTensor) -> keras.KerasTensor:
    """1 for a word and 0 for padding: float32 of the ids' shape."""
    return keras.ops.cast(keras.ops.not_equal(words, 0), "float32")


def _perceptron(
    features: Sequence[keras.KerasTensor], hidden: Sequence[int], dropout: float, outputs: int
) -> keras.KerasTensor:
    x = keras.layers.Concatenate()(features) if len(features) > 1 else features[0]
    for units in hidden:
        x = keras.layers.Dense(units, activation="relu")(x)
        x = keras.layers.Dropout(dropout)(x)
    return keras.layers.Dense(outputs, dtype="float32", name="deep")(x)
