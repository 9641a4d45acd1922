"""Wide & deep (Cheng et al. 2016, "Wide & Deep Learning for Recommender Systems") for tabular data and text.

The wide part is linear in the category ids and numbers; the deep part is a multilayer perceptron over
embeddings of them. Their logits are added.
"""

from collections.abc import Mapping, Sequence
from types import MappingProxyType

import keras

from models.embedding import OffsetEmbedding
from models.features import CATEGORIES, NUMERIC, features, hidden_layers


def wide_deep(
    *,
    numeric: int,
    cardinalities: Sequence[int],
    sequences: Mapping[str, tuple[int, int]],
    outputs: int,
    parts: Mapping[str, Sequence[int]] = MappingProxyType({}),
    embedding: int = 16,
    frequencies: int = 8,
    hidden: Sequence[int] = (256, 128),
    dropout: float = 0.1,
) -> keras.Model:
    """Builds the network over whatever inputs there are.

    Args:
      numeric: how many standardised numbers each example has; 0: none.
      cardinalities: number of different ids in each categorical column.
      sequences: (length, number of ids) of each sequence of ids, by input name; id 0 is padding.
      outputs: how many numbers are predicted for each example.
      parts: how many columns each kind of ids has, for each sequence by name. Only the first kind, words, is
        used.
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
    for tensor, described in features(
        numeric=numeric,
        cardinalities=cardinalities,
        sequences=sequences,
        embedding=embedding,
        frequencies=frequencies,
        parts=parts,
    ):
        inputs.append(tensor)
        deep.append(described)
        if tensor.name == NUMERIC:
            linear = keras.layers.Dense(outputs, dtype="float32", use_bias=False, name="wide_numeric")
            wide.append(linear(tensor))
        elif tensor.name == CATEGORIES:
            wide.append(linear_of_ids(tensor, cardinalities, outputs))
    if not inputs:
        raise ValueError("wide_deep needs numeric, categorical or sequence inputs and received none.")
    hidden_part = hidden_layers(deep, hidden, dropout)
    logits = [*wide, keras.layers.Dense(outputs, dtype="float32", name="deep")(hidden_part)]
    return keras.Model(inputs, keras.layers.Add(dtype="float32", name="logits")(logits), name="wide_deep")


def linear_of_numbers(numbers: keras.KerasTensor, outputs: int) -> keras.KerasTensor:
    """Sums weights times the numbers, which begin as 0: float32 [batch, n] → float32 [batch, outputs]."""
    dense = keras.layers.Dense(
        outputs, dtype="float32", use_bias=False, kernel_initializer="zeros", name="linear_numbers"
    )
    return dense(numbers)


def linear_of_ids(
    ids: keras.KerasTensor, cardinalities: Sequence[int], outputs: int, *, name: str = "wide"
) -> keras.KerasTensor:
    """Sums weights of the ids, which begin as 0: int32 [batch, columns] → float32 [batch, outputs]."""
    # float32: a sum over many columns in bfloat16 would keep 8 bits. Zeros: the wide part starts silent.
    table = OffsetEmbedding(cardinalities, outputs, initializer="zeros", dtype="float32", name=name)
    return keras.ops.sum(table(ids), axis=1)  # (batch, outputs)
