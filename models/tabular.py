"""The network for tables: piecewise-linear numbers, embedded categories, and members that share weights.

After Gorishniy et al. 2024, "TabM: Advancing Tabular Deep Learning with Parameter-Efficient Ensembling", the
form called TabM-mini. Each member sees the inputs through signs of its own, has a last layer of its own, and
learns by its own loss; their logits' mean is what the model answers. A linear part stands beside them,
because on small tables nothing else may be worth learning.
"""

import itertools
import math
from collections.abc import Mapping, Sequence
from types import MappingProxyType

import keras
import numpy as np

from models.embedding import OffsetEmbedding
from models.features import mean_embedding, of_words
from models.wide_deep import linear_of_ids, linear_of_numbers

_FEW_IDS = 32  # a number of many values has more: 32 bins between quantiles, and one for "missing"
# Adam moves all weights alike, so a linear part times 3 learns three times as fast as the parts
# beside it: it has found what is linear before the others begin to overfit.
_LINEAR_SCALE = 3.0
# Standard deviations, and steps of float32 at the boundary: it cannot hold the parts of a narrower bin. One
# value a million times as far as all others leaves these a range of 1e-6 standard deviations.
_NARROWEST, _FEWEST_STEPS = 1e-9, 16


@keras.saving.register_keras_serializable("penstock")
class PiecewiseLinear(keras.layers.Layer):
    """Embeds each number by a line, and by a piecewise-linear function that begins as 0.

    Column c's boundaries b₀ < b₁ < … < bₘ cut it into m bins, and bin i holds what part of it lies below x:
    min(max((x − bᵢ₋₁) / (bᵢ − bᵢ₋₁), 0), 1), the encoding of Gorishniy et al. 2022, "On Embeddings for
    Numerical Features in Tabular Deep Learning", section 3.2, but for the outermost bins, which end here:
    what lies beyond is the line's. Version B of TabM's embeddings: x · line + offset + encoding · pieces.

    float32 [batch, n] → float [batch, n * size].

    Args:
      boundaries: ascending, for each column; a column with fewer than two has its line alone.
      bins: the most bins of a column; from more boundaries, some are left out at even distances.
      size: numbers that a column becomes.
    """

    def __init__(self, boundaries: Sequence[Sequence[float]], *, bins: int, size: int, **kwargs) -> None:
        super().__init__(**kwargs)
        self.boundaries = tuple(_thinned(each, bins) for each in boundaries)
        self.bins, self.size = bins, size
        # A bin that a column lacks is infinitely far away: its part is 0.
        self._lows = np.full((len(self.boundaries), bins), 0.0, np.float32)
        self._inverse_widths = np.zeros_like(self._lows)
        for row, column in enumerate(self.boundaries):
            for at, (low, high) in enumerate(itertools.pairwise(column)):
                self._lows[row, at], self._inverse_widths[row, at] = low, 1.0 / (high - low)

    def build(self, input_shape: tuple[int | None, ...]) -> None:
        columns = input_shape[-1]
        begin = keras.initializers.RandomUniform(-1.0, 1.0)
        self.line = self.add_weight(shape=(columns, self.size), initializer=begin, name="line")
        self.offset = self.add_weight(shape=(columns, self.size), initializer=begin, name="bias")
        # The shape does not depend on the data, so training can go on with another window of them.
        shape = (columns, self.bins, self.size)
        self.pieces = self.add_weight(shape=shape, initializer="zeros", name="pieces")

    def call(self, numbers: keras.KerasTensor) -> keras.KerasTensor:
        column = keras.ops.expand_dims(numbers, -1)  # (batch, n, 1)
        parts = keras.ops.clip((column - self._lows) * self._inverse_widths, 0.0, 1.0)  # (batch, n, bins)
        embedded = column * self.line + self.offset + keras.ops.einsum("bni,nis->bns", parts, self.pieces)
        return keras.ops.reshape(embedded, self.compute_output_shape((-1, numbers.shape[-1])))

    def compute_output_shape(self, input_shape: tuple[int | None, ...]) -> tuple[int | None, ...]:
        return (*input_shape[:-1], input_shape[-1] * self.size)

    def get_config(self) -> dict:
        own = {"boundaries": self.boundaries, "bins": self.bins, "size": self.size}
        return {**super().get_config(), **own}


def _thinned(boundaries: Sequence[float], bins: int) -> tuple[float, ...]:
    """The boundaries, at most `bins` + 1 and both ends among them; those that nearly touch become one."""
    different = np.unique(np.asarray(boundaries, np.float32))
    least = np.maximum(_NARROWEST, _FEWEST_STEPS * np.spacing(np.abs(different)))
    different = different[np.diff(different, prepend=-np.inf) > least]
    if len(different) > bins + 1:
        different = different[np.round(np.linspace(0, len(different) - 1, bins + 1)).astype(int)]
    return tuple(different.tolist()) if len(different) > 1 else ()


@keras.saving.register_keras_serializable("penstock")
class Members(keras.layers.Layer):
    """The features as each member sees them: multiplied by the member's own factors, which are trained and
    begin as signs.

    float [batch, width] → [batch, members, width].
    """

    def __init__(self, members: int, **kwargs) -> None:
        super().__init__(**kwargs)
        self.members = members

    def build(self, input_shape: tuple[int | None, ...]) -> None:
        shape = (self.members, input_shape[-1])
        # Its name is that of a normalisation's factors, which weight decay leaves alone, too.
        self.gamma = self.add_weight(shape=shape, initializer=_signs, name="gamma")

    def call(self, features: keras.KerasTensor) -> keras.KerasTensor:
        return keras.ops.expand_dims(features, 1) * self.gamma

    def compute_output_shape(self, input_shape: tuple[int | None, ...]) -> tuple[int | None, ...]:
        return (input_shape[0], self.members, input_shape[-1])

    def get_config(self) -> dict:
        return {**super().get_config(), "members": self.members}


def _signs(shape: Sequence[int], dtype: str | None = None) -> keras.KerasTensor:
    return keras.ops.sign(keras.random.uniform(shape, -1.0, 1.0, dtype=dtype))


@keras.saving.register_keras_serializable("penstock")
class MeanOfMembers(keras.layers.Layer):
    """The mean over members; in training each member's logits, for a loss of its own.

    float32 [batch, members, outputs] → [batch, outputs]; in training unchanged.
    """

    def call(self, logits: keras.KerasTensor, training: bool | None = None) -> keras.KerasTensor:
        return logits if training else keras.ops.mean(logits, axis=1)

    def compute_output_shape(self, input_shape: tuple[int | None, ...]) -> tuple[int | None, ...]:
        return (input_shape[0], input_shape[-1])


def tabular(
    *,
    numeric: int,
    cardinalities: Sequence[int],
    sequences: Mapping[str, tuple[int, int]],
    outputs: int,
    parts: Mapping[str, Sequence[int]] = MappingProxyType({}),
    boundaries: Sequence[Sequence[float]] = (),
    bin_columns: Sequence[int] = (),
    bins: int = 48,
    embedding: int = 16,
    members: int = 16,
    hidden: Sequence[int] = (128, 128),
    dropout: float = 0.2,
) -> keras.Model:
    """Builds the network over whatever inputs there are.

    Args:
      numeric: how many standardised numbers each example has; 0: none.
      cardinalities: number of different ids in each categorical column.
      sequences: (length, number of ids) of each sequence of ids, by input name; id 0 is padding.
      outputs: how many numbers are predicted for each example.
      parts: how many columns each kind of ids has, for each sequence by name. Only the first kind, words, is
        used.
      boundaries: quantiles of each number, ascending, of which bins are made; none: no number has bins.
      bin_columns: categorical columns whose ids are bins of a number; those of many ids are left out.
      bins: bins of a number, at most; 0: numbers are features as they are.
      embedding: size of a number's, a category's or a word's embedding.
      members: networks that share all weights but the first signs and the last layer; 1: a plain network.
      hidden: units of each hidden layer.
      dropout: fraction of each hidden layer dropped in training.

    Returns:
      Model from {"numeric": float32 [batch, numeric], "categories": int32 [batch, columns],
      name: int32 [batch, length]} to float32 logits [batch, outputs]; in training, with several members, to
      [batch, members, outputs].

    Raises:
      ValueError: there is nothing to predict from, `members` is below 1, or `bins` below 0.
    """
    if members < 1 or bins < 0:
        raise ValueError(f"members, bins: received {members}, {bins}; expected at least 1, and 0.")
    inputs, features, linear = [], [], []
    if numeric:
        numbers = keras.Input((numeric,), dtype="float32", name="numeric")
        inputs.append(numbers)
        # In float32, because bfloat16 keeps 8 bits of a number: too few to tell which of 48 bins it is in.
        cuts = boundaries or ((),) * numeric
        pieces = PiecewiseLinear(cuts, bins=bins, size=embedding, dtype="float32", name="numbers")
        features.append(pieces(numbers) if bins else numbers)
        linear.append(linear_of_numbers(numbers, outputs))
    taken = _taken(cardinalities, bin_columns)
    if taken:
        ids = keras.Input((len(cardinalities),), dtype="int32", name="categories")
        inputs.append(ids)
        own, sizes = keras.ops.take(ids, taken, axis=1), [cardinalities[at] for at in taken]
        features.append(keras.layers.Flatten()(OffsetEmbedding(sizes, embedding, name="embeddings")(own)))
        linear.append(linear_of_ids(own, sizes, outputs, name="linear_ids"))
    for name, (length, size) in sequences.items():
        inputs.append(keras.Input((length,), dtype="int32", name=name))
        words, size = of_words(inputs[-1], size, parts.get(name, ()))
        table = keras.layers.Embedding(size, embedding, name=f"{name}_embedding")
        features.append(mean_embedding(words, table))
    if not inputs:
        raise ValueError("tabular needs numeric, categorical or sequence inputs and received none.")
    linear = [keras.layers.Rescaling(_LINEAR_SCALE, dtype="float32")(each) for each in linear]
    x = keras.layers.Concatenate()(features) if len(features) > 1 else features[0]
    if members > 1:
        x = Members(members, name="members")(x)  # (batch, members, width)
        linear = [keras.layers.Reshape((1, outputs), dtype="float32")(each) for each in linear]
    for units in hidden:
        x = keras.layers.Dense(units, activation="relu")(x)
        x = keras.layers.Dropout(dropout)(x)
    if members == 1:
        deep = keras.layers.Dense(outputs, dtype="float32", name="deep")(x)
        return keras.Model(inputs, _sum([*linear, deep], name="logits"), name="tabular")
    deep = _last_layers(members, x.shape[-1], outputs)(x)
    logits = MeanOfMembers(dtype="float32", name="logits")(_sum([*linear, deep], name="of_members"))
    return keras.Model(inputs, logits, name="tabular")


def _taken(cardinalities: Sequence[int], bin_columns: Sequence[int]) -> list[int]:
    """The categorical columns but for bins of numbers that have many values: these are learned by heart."""
    left_out = {at for at in bin_columns if cardinalities[at] > _FEW_IDS}
    return [at for at in range(len(cardinalities)) if at not in left_out]


def _last_layers(members: int, width: int, outputs: int) -> keras.Layer:
    """A dense layer for each member: [batch, members, width] → float32 [batch, members, outputs]."""
    limit = math.sqrt(6.0 / (width + outputs))  # Glorot's limit, as if each member were a layer of its own
    return keras.layers.EinsumDense(
        "bmi,mio->bmo",
        (members, outputs),
        bias_axes="mo",
        kernel_initializer=keras.initializers.RandomUniform(-limit, limit),
        dtype="float32",
        name="deep",
    )


def _sum(logits: Sequence[keras.KerasTensor], *, name: str) -> keras.KerasTensor:
    return keras.layers.Add(dtype="float32", name=name)(logits) if len(logits) > 1 else logits[0]
