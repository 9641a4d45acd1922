"""The last layer of a model that chooses among items: a score of every item for each query vector.

`Items` also says how it is to be trained and served, which the task `retrieval` reads
(pipeline/training/tasks/retrieval.py): that task asks it for blocks of scores, and for those of a batch's own
items alone, so that the scores of a million items are never in memory at once.
"""

from typing import Literal, get_args

import keras
from keras import ops

Negatives = Literal["auto", "all", "batch"]
NO_ITEM = 2  # ids of a list of items: 0 is none, 1 an unknown one, then come the items in their order


@keras.saving.register_keras_serializable("penstock")
class Items(keras.layers.Layer):
    """Query vectors, float [batch, size] → scores of all items, float32 [batch, items].

    A score is query · vector + bias of the item. With a `temperature`, it is their cosine divided by the
    temperature, + bias. With `lookup=True` the layer takes lists of items, int32 [batch, length],
    and gives their vectors, float32 [batch, length, size], which are 0 for ids below `NO_ITEM`.

    Attributes:
      items: how many there are; `size`: numbers of a vector.
      temperature: 0: scores are dot products.
      k: how many items are answered.
      negatives: what an item is trained against: `all` items, the items of the `batch`, or `auto`: all of up
        to `FEW`.
      log_q: whether scores of a batch's items are corrected by how often these are drawn.
    """

    FEW = 5_000

    def __init__(
        self,
        items: int,
        size: int,
        *,
        temperature: float = 0.0,
        k: int = 10,
        negatives: Negatives = "auto",
        log_q: bool = True,
        **kwargs,
    ) -> None:
        super().__init__(**{"dtype": "float32", **kwargs})  # ranks need more than bfloat16's 8 bits
        if negatives not in get_args(Negatives):
            raise ValueError(f"negatives: received {negatives!r}; expected one of {get_args(Negatives)}.")
        if k < 1 or temperature < 0 or size < 1:
            raise ValueError(
                f"received k={k}, temperature={temperature}, size={size}; expected k and size from 1 on, and "
                "a temperature from 0, for dot products, on."
            )
        self.items, self.size, self.temperature = items, size, temperature
        self.k, self.negatives, self.log_q = k, negatives, log_q

    def build(self, input_shape: tuple) -> None:
        # Scores of queries of length 1 then begin with a deviation of some 1 / √size.
        vectors = keras.initializers.RandomNormal(stddev=self.size**-0.5)
        self.table = self.add_weight((self.items, self.size), initializer=vectors, name="table")
        self.bias = self.add_weight((self.items,), initializer="zeros", name="bias")

    @property
    def are_all_negatives(self) -> bool:
        """Whether training scores all items."""
        return self.negatives == "all" or (self.negatives == "auto" and self.items <= self.FEW)

    def call(self, inputs: keras.KerasTensor, lookup: bool = False) -> keras.KerasTensor:
        if lookup:
            rows = ops.take(self.table, ops.maximum(inputs - NO_ITEM, 0), axis=0)
            return rows * ops.cast(inputs >= NO_ITEM, rows.dtype)[..., None]
        return self._scores(inputs, self.table, self.bias)

    def scores_of(self, queries: keras.KerasTensor, ids: keras.KerasTensor) -> keras.KerasTensor:
        """Scores of some items for all queries, float32 [batch, n]; ids: int32 [n]."""
        rows, bias = ops.take(self.table, ids, axis=0), ops.take(self.bias, ids, axis=0)
        return self._scores(queries, rows, bias)

    def block(self, queries: keras.KerasTensor, first: keras.KerasTensor, size: int) -> keras.KerasTensor:
        """Scores of `size` items from `first`, int32 [], on: float32 [batch, size]."""
        rows = ops.slice(self.table, (first, 0), (size, self.size))
        return self._scores(queries, rows, ops.slice(self.bias, (first,), (size,)))

    def _scores(
        self, queries: keras.KerasTensor, rows: keras.KerasTensor, bias: keras.KerasTensor
    ) -> keras.KerasTensor:
        queries = ops.cast(queries, "float32")
        if self.temperature:
            queries, rows = ops.normalize(queries, axis=-1) / self.temperature, ops.normalize(rows, axis=-1)
        return ops.matmul(queries, ops.transpose(rows)) + bias

    def get_config(self) -> dict:
        names = ("items", "size", "temperature", "k", "negatives", "log_q")
        return {**super().get_config(), **{name: getattr(self, name) for name in names}}


def split(model: keras.Model) -> tuple[keras.Model, Items | None]:
    """Returns the part of a model that makes query vectors, and the layer that scores items for them.

    A model that does not end in `Items` makes scores itself: then there is no such layer.
    """
    outputs = getattr(model, "outputs", None) or [None]
    # Keras (3.15) has no public way from a tensor to its layer.
    history = getattr(outputs[0], "_keras_history", None)
    if history is None or not isinstance(history.operation, Items):
        return model, None
    [queries] = history.operation._inbound_nodes[history.node_index].input_tensors
    return keras.Model(model.inputs, queries, name=f"{model.name}_queries"), history.operation
