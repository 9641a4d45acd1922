"""What models of tables make of their inputs: numbers, categories and lists of ids as float features."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType

import keras

from models.embedding import OffsetEmbedding

NUMERIC, CATEGORIES = "numeric", "categories"  # the inputs that hold several columns
_ROWS = 1 << 16  # rows in a table for the words of texts
Embed = Callable[[keras.KerasTensor], keras.KerasTensor]  # ids [batch, length] → [batch, length, size]


def features(
    *,
    numeric: int,
    cardinalities: Sequence[int],
    sequences: Mapping[str, tuple[int, int]],
    embedding: int,
    frequencies: int = 0,
    tables: Mapping[str, Embed] = MappingProxyType({}),
    parts: Mapping[str, Sequence[int]] = MappingProxyType({}),
) -> Iterator[tuple[keras.KerasTensor, keras.KerasTensor]]:
    """Yields each input of a model with its features, float [batch, width].

    Numbers are themselves and, where asked for, sines; categories are embeddings side by side; a sequence is
    the mean of its ids' embeddings.

    Args:
      numeric, cardinalities, sequences: see ModelInputs.
      embedding: size of an id's embedding.
      frequencies: periodic features of each number; 0: none.
      tables: what embeds a sequence, by its name; the others get tables of their own.
      parts: see ModelInputs.
    """
    if numeric:
        numbers = keras.Input((numeric,), dtype="float32", name=NUMERIC)
        # float32: an angle of several turns in bfloat16 is off by degrees.
        periodic = PeriodicFeatures(frequencies, dtype="float32", name="periodic")
        yield numbers, periodic(numbers) if frequencies else numbers
    if cardinalities:
        ids = keras.Input((len(cardinalities),), dtype="int32", name=CATEGORIES)
        yield ids, keras.layers.Flatten()(OffsetEmbedding(cardinalities, embedding, name="embeddings")(ids))
    for name, (length, size) in sequences.items():
        ids = keras.Input((length,), dtype="int32", name=name)
        words, size = of_words(ids, size, parts.get(name, ()))
        embed = tables.get(name) or keras.layers.Embedding(size, embedding, name=f"{name}_embedding")
        yield ids, mean_embedding(words, embed)


def of_words(ids: keras.KerasTensor, size: int, parts: Sequence[int]) -> tuple[keras.KerasTensor, int]:
    """The ids of words alone, int32 [batch, columns], each below the number beside them.

    Runs of characters, distant pairs and so many ids are for linear models: a remainder keeps as many ids
    here as a table of embeddings has rows. `parts`: see ModelInputs; a sequence without them stays as it is.
    """
    if not parts:
        return ids, size
    words = ids[:, : parts[0]]
    if size <= _ROWS:
        return words, size
    folded = 1 + (words - 1) % _ROWS
    return keras.ops.where(keras.ops.equal(words, 0), 0, folded), 1 + _ROWS


def mean_embedding(ids: keras.KerasTensor, embed: Embed) -> keras.KerasTensor:
    """The mean over ids that are no padding, float [batch, size]; ids: int32 [batch, length]."""
    embedded = embed(ids)
    present = _present(ids)  # (batch, length)
    # A text without words gives 0. Keras's pooling would divide by none.
    count = keras.ops.maximum(keras.ops.sum(present, axis=1, keepdims=True), 1.0)
    share = keras.ops.cast(present / count, embedded.dtype)
    return keras.ops.sum(embedded * share[:, :, None], axis=1)  # (batch, size)


def _present(ids: keras.KerasTensor) -> keras.KerasTensor:
    """1 for an id and 0 for padding: float32 of the ids' shape."""
    return keras.ops.cast(keras.ops.not_equal(ids, 0), "float32")


def hidden_layers(
    features: Sequence[keras.KerasTensor], hidden: Sequence[int], dropout: float
) -> keras.KerasTensor:
    """Features side by side through layers of so many units: float [batch, units of the last]."""
    x = side_by_side(features)
    for units in hidden:
        x = keras.layers.Dense(units, activation="relu")(x)
        x = keras.layers.Dropout(dropout)(x)
    return x


def side_by_side(features: Sequence[keras.KerasTensor]) -> keras.KerasTensor:
    return keras.layers.Concatenate()(features) if len(features) > 1 else features[0]


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
