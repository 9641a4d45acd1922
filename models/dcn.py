"""DCN-V2 (Wang et al. 2021, "DCN V2: Improved Deep & Cross Network") for clicks, with DLRM's interaction
(Naumov et al. 2019, "Deep Learning Recommendation Model") in place of its cross layers where wanted.

All categorical columns have embeddings of one size, in one table, which may have millions of rows.
"""

from collections.abc import Sequence

import keras
import numpy as np

from models.embedding import OffsetEmbedding

INTERACTIONS = ("cross", "dot")


@keras.saving.register_keras_serializable("penstock")
class Cross(keras.layers.Layer):
    """x₀ ⊙ (W x + b) + x, with W of `rank` as U V where it is not 0: Wang et al. 2021, equations 1 and 2.

    (x₀, x), float [batch, n] each → float [batch, n].
    """

    def __init__(self, rank: int = 0, **kwargs) -> None:
        super().__init__(**kwargs)
        self.rank = rank

    def build(self, first_shape: tuple[int | None, ...], x_shape: tuple[int | None, ...]) -> None:
        size = x_shape[-1]
        if self.rank:
            self.down = self.add_weight(shape=(size, self.rank), name="down")
        self.kernel = self.add_weight(shape=(self.rank or size, size), name="kernel")
        self.bias = self.add_weight(shape=(size,), initializer="zeros", name="bias")

    def call(self, first: keras.KerasTensor, x: keras.KerasTensor) -> keras.KerasTensor:
        projected = keras.ops.matmul(x, self.down) if self.rank else x
        return first * (keras.ops.matmul(projected, self.kernel) + self.bias) + x

    def compute_output_shape(
        self, first_shape: tuple[int | None, ...], x_shape: tuple[int | None, ...]
    ) -> tuple[int | None, ...]:
        return x_shape

    def get_config(self) -> dict:
        return {**super().get_config(), "rank": self.rank}


@keras.saving.register_keras_serializable("penstock")
class Dots(keras.layers.Layer):
    """The dot products of all pairs of n vectors: float [batch, n, size] → float [batch, n * (n - 1) / 2]."""

    def call(self, vectors: keras.KerasTensor) -> keras.KerasTensor:
        count = vectors.shape[1]
        products = keras.ops.matmul(vectors, keras.ops.transpose(vectors, (0, 2, 1)))
        rows, columns = np.tril_indices(count, -1)
        flat = keras.ops.reshape(products, (-1, count * count))
        return keras.ops.take(flat, rows * count + columns, axis=1)

    def compute_output_shape(self, input_shape: tuple[int | None, ...]) -> tuple[int | None, ...]:
        return (input_shape[0], input_shape[1] * (input_shape[1] - 1) // 2)


def dcn(
    *,
    numeric: int,
    cardinalities: Sequence[int],
    outputs: int,
    embedding: int = 16,
    interaction: str = "cross",
    crosses: int = 3,
    rank: int = 0,
    hidden: Sequence[int] = (256, 128),
    dropout: float = 0.1,
) -> keras.Model:
    """Builds the network: a deep part beside the cross layers, or behind the dot products.

    Args:
      numeric: how many standardised numbers each example has; 0: none.
      cardinalities: number of different ids in each categorical column.
      outputs: how many numbers are predicted for each example.
      embedding: size of a category's embedding.
      interaction: `cross`: cross layers over numbers and embeddings, with a perceptron beside them; `dot`:
        dot products of all pairs of the embeddings and a vector of the numbers, below a perceptron.
      crosses: number of cross layers.
      rank: rank of their matrices; 0: full.
      hidden: units of each hidden layer of a perceptron.
      dropout: fraction of each hidden layer dropped in training.

    Returns:
      Model from {"numeric": float32 [batch, numeric], "categories": int32 [batch, columns]} to float32 logits
      [batch, outputs].

    Raises:
      ValueError: there is no category, or the interaction is unknown.
    """
    if not cardinalities:
        raise ValueError("dcn needs categorical inputs and received none; for numbers alone take wide_deep.")
    if interaction not in INTERACTIONS:
        raise ValueError(f"interaction: received {interaction!r}; expected one of {', '.join(INTERACTIONS)}.")
    ids = keras.Input((len(cardinalities),), dtype="int32", name="categories")
    numbers = [keras.Input((numeric,), dtype="float32", name="numeric")] if numeric else []
    embedded = OffsetEmbedding(cardinalities, embedding, name="embeddings")(ids)
    settings = {"hidden": hidden, "dropout": dropout}
    if interaction == "cross":
        features = _crossed(numbers, embedded, crosses, rank, **settings)
    else:
        features = _dotted(numbers, embedded, **settings)
    logits = keras.layers.Dense(outputs, dtype="float32", name="logits")(features)
    return keras.Model([*numbers, ids], logits, name="dcn")


def _crossed(
    numbers: Sequence[keras.KerasTensor],
    embedded: keras.KerasTensor,
    crosses: int,
    rank: int,
    **settings,
) -> keras.KerasTensor:
    first = _joined([*numbers, keras.layers.Flatten()(embedded)])
    x = first
    for number in range(crosses):
        x = Cross(rank, name=f"cross_{number}")(first, x)
    return _joined([x, _perceptron(first, **settings)])


def _dotted(
    numbers: Sequence[keras.KerasTensor], embedded: keras.KerasTensor, **settings
) -> keras.KerasTensor:
    vectors, size = embedded, embedded.shape[-1]
    below = [keras.layers.Dense(size, activation="relu", name="bottom")(each) for each in numbers]
    if below:
        vectors = keras.layers.Concatenate(axis=1)([keras.layers.Reshape((1, size))(below[0]), embedded])
    return _perceptron(_joined([*below, Dots(name="dots")(vectors)]), **settings)


def _joined(features: Sequence[keras.KerasTensor]) -> keras.KerasTensor:
    return keras.layers.Concatenate()(features) if len(features) > 1 else features[0]


def _perceptron(x: keras.KerasTensor, *, hidden: Sequence[int], dropout: float) -> keras.KerasTensor:
    for units in hidden:
        x = keras.layers.Dropout(dropout)(keras.layers.Dense(units, activation="relu")(x))
    return x
