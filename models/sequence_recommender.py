"""A transformer over the last items of a user, which recommends the next one.

The table of items serves both the history and the answers, and training is against a sampled softmax: the
main parts of eSASRec (Tikhonovich et al. 2025, "eSASRec: Enhancing Transformer-based Recommendations in a
Modular Fashion"). The blocks are those of `transformer`. A vector of its own, before the first item, looks at
the whole list and becomes the query; so the empty history has an answer, too. Positions count from the
front: the latest item is to come first, as lists that are too long lose their end.
"""

from collections.abc import Mapping, Sequence
from functools import partial

import keras
from keras import ops

from models.features import features
from models.items import Items, Negatives
from models.transformer import FAR, Block, Seen, rotary
from models.two_tower import query_vector


def sequence_recommender(
    *,
    numeric: int,
    cardinalities: Sequence[int],
    sequences: Mapping[str, tuple[int, int]],
    outputs: int,
    of_items: Sequence[str] = (),
    size: int = 32,
    depth: int = 2,
    heads: int = 2,
    expansion: int = 4,
    embedding: int = 16,
    frequencies: int = 0,
    hidden: Sequence[int] = (),
    dropout: float = 0.1,
    k: int = 10,
    negatives: Negatives = "auto",
    log_q: bool = True,
    temperature: float = 0.0,
) -> keras.Model:
    """Builds the network.

    Args:
      numeric, cardinalities: the other inputs, whose features stand beside the vector of the history.
      sequences: (length, number of ids) of each sequence of ids. The history is the first one that `of_items`
        names; if it names none, there must be one sequence alone. The others are other inputs.
      outputs: number of items.
      of_items: the sequences whose ids are items: their table is that of the items.
      size: length of a query's vector, of an item's, and of the vectors between the blocks.
      depth: blocks.
      heads: heads of a block; size / heads numbers each, an even number.
      expansion: hidden units of a block's perceptron, times the size.
      embedding: size of the embedding of each other id.
      frequencies: periodic features of each number; 0: the numbers alone.
      hidden: units of each hidden layer between the history's vector, with what is beside it, and the query.
      dropout: fraction of what a block adds, and of each hidden layer, that is dropped in training.
      k, negatives, log_q, temperature: see Items.

    Returns:
      Model from the inputs of `wide_deep` to float32 scores [batch, outputs].

    Raises:
      ValueError: there is not one history, or sizes do not fit each other.
    """
    history = next(iter(of_items), "") or (next(iter(sequences)) if len(sequences) == 1 else "")
    if not history:
        raise ValueError(
            f"sequence_recommender needs a list of the last items and received the sequences {[*sequences]}: "
            "give one the vocabulary of the label's classes."
        )
    if size % (2 * heads):
        raise ValueError(f"size must be a multiple of 2 × heads; received size={size}, heads={heads}.")
    items = Items(outputs, size, k=k, negatives=negatives, log_q=log_q, temperature=temperature, name="items")
    shared = dict.fromkeys(of_items, partial(items, lookup=True))
    length, ids = sequences[history]
    listed = keras.Input((length,), dtype="int32", name=history)
    embed = shared.get(history) or keras.layers.Embedding(ids, size, name=f"{history}_embedding")
    x = QueryFirst(name="query_first")(embed(listed))  # (batch, 1 + length, size)
    seen = WholeHistory(size // heads, dtype="float32", name="whole_history")(listed)
    for number in range(depth):
        x = Block(
            heads=heads,
            key_value_heads=heads,
            expansion=expansion,
            dropout=dropout,
            output_scale=1 / (2 * depth),
            name=f"block_{number}",
        )(x, *seen)
    x = keras.layers.RMSNormalization(name="norm")(x[:, 0])
    others = [
        *features(
            numeric=numeric,
            cardinalities=cardinalities,
            sequences={name: each for name, each in sequences.items() if name != history},
            embedding=embedding,
            frequencies=frequencies,
            tables=shared,
        )
    ]
    query = query_vector([x, *(found for _, found in others)], size=size, hidden=hidden, dropout=dropout)
    inputs = [*(tensor for tensor, _ in others), listed]
    return keras.Model(inputs, items(query), name="sequence_recommender")


@keras.saving.register_keras_serializable("penstock")
class QueryFirst(keras.layers.Layer):
    """Puts a vector of its own before each list: float [batch, length, size] → [batch, 1 + length, size]."""

    def build(self, input_shape: tuple) -> None:
        initializer = keras.initializers.RandomNormal(stddev=input_shape[-1] ** -0.5)
        self.query = self.add_weight((1, 1, input_shape[-1]), initializer=initializer, name="query")

    def call(self, listed: keras.KerasTensor) -> keras.KerasTensor:
        first = ops.broadcast_to(self.query, (ops.shape(listed)[0], 1, listed.shape[-1]))
        return ops.concatenate([ops.cast(first, listed.dtype), listed], axis=1)

    def compute_output_shape(self, input_shape: tuple) -> tuple:
        batch, length, size = input_shape
        return batch, length + 1, size


@keras.saving.register_keras_serializable("penstock")
class WholeHistory(keras.layers.Layer):
    """Ids of lists, int32 [batch, length] → `Seen` of the query before each list and of its items.

    Each sees the query and all ids but padding, 0.
    """

    def __init__(self, head_size: int, **kwargs) -> None:
        super().__init__(**kwargs)
        self.head_size = head_size

    def call(self, ids: keras.KerasTensor) -> tuple:
        is_there = ops.pad(ids != 0, ((0, 0), (1, 0)), constant_values=True)  # (batch, 1 + length)
        places = ops.cumsum(ops.ones_like(is_there, dtype="int32"), axis=1) - 1
        bias = ops.where(is_there, 0.0, FAR)[:, None, :]
        bias = ops.broadcast_to(bias, (ops.shape(ids)[0], is_there.shape[1], is_there.shape[1]))
        return tuple(Seen(*rotary(places, self.head_size), bias=bias))

    def compute_output_shape(self, input_shape: tuple) -> tuple:
        batch, length = input_shape
        angles = (batch, length + 1, 1, self.head_size // 2)
        return angles, angles, (batch, length + 1, length + 1)

    def get_config(self) -> dict:
        return {**super().get_config(), "head_size": self.head_size}
