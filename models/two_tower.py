"""Two towers (Covington et al. 2016; Yi et al. 2019): a vector for the query and one for each item.

The query tower is a multilayer perceptron, and a linear layer beside it, over whatever inputs there are. The
item tower is a table of vectors and biases. The score of an item is a product of both vectors, so that a
search for the best ones needs the tables alone.
"""

from collections.abc import Mapping, Sequence
from functools import partial

import keras

from models.features import features, hidden_layers, side_by_side
from models.items import Items, Negatives


def two_tower(
    *,
    numeric: int,
    cardinalities: Sequence[int],
    sequences: Mapping[str, tuple[int, int]],
    outputs: int,
    of_items: Sequence[str] = (),
    size: int = 32,
    embedding: int = 32,
    frequencies: int = 0,
    hidden: Sequence[int] = (64,),
    dropout: float = 0.0,
    k: int = 10,
    negatives: Negatives = "auto",
    log_q: bool = True,
    temperature: float = 0.0,
) -> keras.Model:
    """Builds both towers.

    Args:
      numeric: how many standardised numbers each example has; 0: none.
      cardinalities: number of different ids in each categorical column.
      sequences: (length, number of ids) of each sequence of ids, by input name; id 0 is padding.
      outputs: number of items.
      of_items: the sequences whose ids are items: their table is that of the items.
      size: length of the vector of a query, and of that of an item.
      embedding: size of the embedding of each other id.
      frequencies: periodic features of each number; 0: the numbers alone.
      hidden: units of each hidden layer of the query tower; (): it is linear.
      dropout: fraction of each hidden layer dropped in training.
      k, negatives, log_q, temperature: see Items.

    Returns:
      Model from the inputs of `wide_deep` to float32 scores [batch, outputs].

    Raises:
      ValueError: there is nothing to predict from, or a number is out of its range.
    """
    items = Items(outputs, size, k=k, negatives=negatives, log_q=log_q, temperature=temperature, name="items")
    described = list(
        features(
            numeric=numeric,
            cardinalities=cardinalities,
            sequences=sequences,
            embedding=embedding,
            frequencies=frequencies,
            tables=dict.fromkeys(of_items, partial(items, lookup=True)),
        )
    )
    if not described:
        raise ValueError("two_tower needs numeric, categorical or sequence inputs and received none.")
    inputs, found = zip(*described, strict=True)
    query = query_vector(found, size=size, hidden=hidden, dropout=dropout)
    return keras.Model(list(inputs), items(query), name="two_tower")


def query_vector(
    found: Sequence[keras.KerasTensor], *, size: int, hidden: Sequence[int], dropout: float
) -> keras.KerasTensor:
    """Features → query vectors, float32 [batch, size]: a linear layer and, beside it, a perceptron."""
    linear = keras.layers.Dense(size, dtype="float32", name="linear")(side_by_side(found))
    if not hidden:
        return linear
    deep = keras.layers.Dense(size, use_bias=False, dtype="float32", name="deep")
    added = keras.layers.Add(dtype="float32", name="query")
    return added([linear, deep(hidden_layers(found, hidden, dropout))])
