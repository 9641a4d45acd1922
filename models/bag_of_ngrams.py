"""A linear model of texts: each different word, pair of words and run of characters has a weight.

So few texts hold any one of these that a linear model of all of them is hard to beat: Wang & Manning 2012,
"Baselines and Bigrams: Simple, Good Sentiment and Topic Classification". Like theirs, it counts an id of a
text once, however often it stands there. Theirs multiplies the weight of an id by how unevenly the classes
have it, which is counted beforehand. Here that factor begins as 1 and is learned: an id that tells classes
apart gets a larger one, and then its weight learns faster. Training leaves out most ids of a text at random,
which holds back weights that few texts decide (Wang & Manning 2013, "Fast dropout training"). The model wants
Adagrad, whose steps are the larger the rarer an id is (Duchi et al. 2011), as idf is in TF-IDF.
"""

from collections.abc import Mapping, Sequence
from types import MappingProxyType

import keras

from models.embedding import OffsetEmbedding
from models.wide_deep import linear_of_ids, linear_of_numbers


def bag_of_ngrams(
    *,
    numeric: int,
    cardinalities: Sequence[int],
    sequences: Mapping[str, tuple[int, int]],
    outputs: int,
    parts: Mapping[str, Sequence[int]] = MappingProxyType({}),
    dropout: float = 0.7,
) -> keras.Model:
    """Builds the model over whatever inputs there are.

    Args:
      numeric: how many standardised numbers each example has; 0: none.
      cardinalities: number of different ids in each categorical column.
      sequences: (length, number of ids) of each sequence of ids, by input name; id 0 is padding.
      outputs: how many numbers are predicted for each example.
      parts: how many columns each kind of ids (words, runs of characters) has, for each sequence by name.
        A kind's ids together weigh the same, however many they are; a sequence without parts is one kind.
      dropout: fraction of the ids that training leaves out.

    Returns:
      Model from {"numeric": float32 [batch, numeric], "categories": int32 [batch, columns],
      name: int32 [batch, length]} to float32 logits [batch, outputs].

    Raises:
      ValueError: there is nothing to predict from.
    """
    inputs, linear = [], []
    if numeric:
        inputs.append(keras.Input((numeric,), dtype="float32", name="numeric"))
        linear.append(linear_of_numbers(inputs[-1], outputs))
    if cardinalities:
        inputs.append(keras.Input((len(cardinalities),), dtype="int32", name="categories"))
        linear.append(linear_of_ids(inputs[-1], cardinalities, outputs, name="linear_ids"))
    for name, (length, size) in sequences.items():
        inputs.append(keras.Input((length,), dtype="int32", name=name))
        columns = parts.get(name, (length,))
        linear += _of_parts(inputs[-1], size, columns, outputs=outputs, dropout=dropout, name=name)
    if not inputs:
        raise ValueError("bag_of_ngrams needs numeric, categorical or sequence inputs and received none.")
    added = keras.layers.Add(dtype="float32")(linear) if len(linear) > 1 else linear[0]
    return keras.Model(inputs, Bias(dtype="float32", name="logits")(added), name="bag_of_ngrams")


def _of_parts(
    ids: keras.KerasTensor, size: int, parts: Sequence[int], *, outputs: int, dropout: float, name: str
) -> list[keras.KerasTensor]:
    """Logits of each part of the columns, float32 [batch, outputs]; ids: int32 [batch, length]."""
    # Zeros: an id that training never saw says nothing.
    weights = OffsetEmbedding((size,), outputs, initializer="zeros", dtype="float32", name=f"{name}_weights")
    factors = OffsetEmbedding((size,), 1, initializer="ones", dtype="float32", name=f"{name}_factors")
    logits, first = [], 0
    for at, columns in enumerate(parts):
        kind = Bag(dropout, dtype="float32", name=f"{name}_{at}")
        own, shares = kind(ids[:, first : first + columns])
        counts = factors(own) * shares[:, :, None]  # (batch, columns, 1)
        logits.append(keras.ops.sum(weights(own) * counts, axis=1))  # (batch, outputs)
        first += columns
    return logits


@keras.saving.register_keras_serializable("penstock")
class Bag(keras.layers.Layer):
    """The ids of each text, and what each counts: 1 / √n for one of each of n different ids, else 0.

    Padding, id 0, counts 0. The squares of a text's shares add up to 1, as in TF-IDF. In training each share
    is 0 with probability `dropout`, and the others are larger so that their expectation stays.

    int32 [batch, columns] → the ids in another order, int32 [batch, columns], and float32 [batch, columns].
    """

    def __init__(self, dropout: float, **kwargs) -> None:
        super().__init__(**kwargs)
        self.dropout = keras.layers.Dropout(dropout, dtype="float32")

    def call(
        self, ids: keras.KerasTensor, training: bool | None = None
    ) -> tuple[keras.KerasTensor, keras.KerasTensor]:
        ordered = keras.ops.sort(ids, axis=1)  # equal ids stand side by side
        differs = keras.ops.not_equal(ordered[:, 1:], ordered[:, :-1])
        is_first = keras.ops.concatenate([keras.ops.ones_like(differs[:, :1]), differs], axis=1)
        counted = keras.ops.cast(keras.ops.logical_and(is_first, keras.ops.not_equal(ordered, 0)), "float32")
        count = keras.ops.maximum(keras.ops.sum(counted, axis=1, keepdims=True), 1.0)  # no division by 0
        return ordered, self.dropout(counted / keras.ops.sqrt(count), training=training)

    def compute_output_shape(
        self, input_shape: tuple[int | None, ...]
    ) -> tuple[tuple[int | None, ...], tuple[int | None, ...]]:
        return input_shape, input_shape

    def compute_output_spec(
        self, ids: keras.KerasTensor, training: bool | None = None
    ) -> tuple[keras.KerasTensor, keras.KerasTensor]:
        return keras.KerasTensor(ids.shape, "int32"), keras.KerasTensor(ids.shape, "float32")

    def get_config(self) -> dict:
        return {**super().get_config(), "dropout": self.dropout.rate}


@keras.saving.register_keras_serializable("penstock")
class Bias(keras.layers.Layer):
    """Adds a number to each logit, which begins as 0: float32 [batch, outputs] → [batch, outputs]."""

    def build(self, input_shape: tuple[int | None, ...]) -> None:
        self.bias = self.add_weight(shape=input_shape[-1:], initializer="zeros", name="bias")

    def call(self, logits: keras.KerasTensor) -> keras.KerasTensor:
        return logits + self.bias
