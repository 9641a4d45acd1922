"""A causal transformer over packed tokens: predicts each token from those before it in its own document.

Pre-norm blocks (Xiong et al. 2020) with root mean square normalization (Zhang & Sennrich 2019), rotary
positions (Su et al. 2021), grouped queries (Ainslie et al. 2023) whose queries and keys are normalized
(Henry et al. 2020), squared ReLU (So et al. 2021), and one table for embedding and logits (Press & Wolf
2017). Written with plain layers because Keras's GroupedQueryAttention has neither rotary positions nor a
cache, and fails with one head of keys (Keras 3.15 on TensorFlow).

`Decoder` computes the same logits one token at a time, from a cache of keys and values.
"""

from collections.abc import Callable, Mapping
from typing import NamedTuple

import keras
from keras import ops

SEGMENTS = "segments"  # the input that numbers the documents of a row
FAR = -3e4  # added to the score of a token that must not be seen: its exp is 0, and float16 holds it
_ROTARY_BASE = 10_000.0


def transformer(
    *,
    sequences: Mapping[str, tuple[int, int]],
    outputs: int,
    width: int = 128,
    depth: int = 4,
    heads: int = 4,
    key_value_heads: int = 2,
    expansion: int = 4,
    dropout: float = 0.0,
) -> keras.Model:
    """Builds the network.

    Args:
      sequences: (length, number of ids) of the tokens and, as `segments`, of the numbers of their documents
        in the row; without these a row is one document. Ids are shifted by one: id 0 is no token.
      outputs: how many different tokens it can predict: one less than there are ids, as id 0 is no token.
      width: numbers that describe a token between the layers.
      depth: blocks, of attention and of a perceptron each.
      heads: heads of queries; `width / heads` numbers each, an even number.
      key_value_heads: heads of keys and values, each of which `heads / key_value_heads` queries share.
      expansion: hidden units of a perceptron, times the width.
      dropout: fraction of what a block adds that is dropped in training.

    Returns:
      Model from {tokens: int32 [batch, length], "segments": int32 [batch, length]} to float32 logits
      [batch, length, outputs]: of the token after each.

    Raises:
      ValueError: sizes do not fit each other, or there is not one sequence of tokens.
    """
    names = [name for name in sequences if name != SEGMENTS]
    if len(names) != 1 or outputs != sequences[names[0]][1] - 1:
        raise ValueError(
            f"transformer predicts the next of one sequence of tokens, and received the sequences "
            f"{dict(sequences)} and {outputs} outputs."
        )
    if heads % key_value_heads or width % (2 * heads):
        raise ValueError(
            f"width must be a multiple of 2 × heads, and heads of key_value_heads; received width={width}, "
            f"heads={heads}, key_value_heads={key_value_heads}."
        )
    inputs = [keras.Input((length,), dtype="int32", name=name) for name, (length, _) in sequences.items()]
    named = dict(zip(sequences, inputs, strict=True))
    tokens = named[names[0]]  # (batch, length)
    seen = Packing(width // heads, dtype="float32", name="packing")(
        named.get(SEGMENTS, ops.zeros_like(tokens))
    )
    embedding = keras.layers.ReversibleEmbedding(
        sequences[names[0]][1],
        width,
        embeddings_initializer=keras.initializers.RandomNormal(stddev=width**-0.5),
        reverse_dtype="float32",  # bfloat16 logits would cost accuracy, and leak into exports
        name="embedding",
    )
    x = embedding(tokens)  # (batch, length, width)
    for number in range(depth):
        x = Block(
            heads=heads,
            key_value_heads=key_value_heads,
            expansion=expansion,
            dropout=dropout,
            output_scale=1 / (2 * depth),
            name=f"block_{number}",
        )(x, *seen)
    x = keras.layers.RMSNormalization(name="norm")(x)
    # The logits are float32 already. Without the cast Keras (3.15) would declare the dtype of the policy.
    logits = ops.cast(embedding(x, reverse=True), "float32")[..., 1:]  # id 0 is never predicted
    return keras.Model(inputs, logits, name="transformer")


class Seen(NamedTuple):
    """What each token sees of its row, and where it stands.

    `cos`, `sin`: cosines and sines of its rotary angles, float32 [batch, length, 1, head size / 2]; `bias`:
    float32 [batch, length, length], 0 where a token sees another one, and `FAR` where it does not.
    """

    cos: keras.KerasTensor
    sin: keras.KerasTensor
    bias: keras.KerasTensor


@keras.saving.register_keras_serializable("penstock")
class Packing(keras.layers.Layer):
    """Numbers of the documents in a row, int32 [batch, length] → `Seen`.

    A token sees itself and what comes before it in its document; positions begin anew with each document. So
    documents that share a row are computed as if each had a row of its own.
    """

    def __init__(self, head_size: int, **kwargs) -> None:
        super().__init__(**kwargs)
        self.head_size = head_size

    def call(self, segments: keras.KerasTensor) -> tuple:
        place = ops.arange(segments.shape[1])
        is_before = ops.expand_dims(place, 1) >= ops.expand_dims(place, 0)
        is_same = ops.equal(ops.expand_dims(segments, 2), ops.expand_dims(segments, 1))
        sees = ops.logical_and(is_before, is_same)  # (batch, length, length)
        positions = ops.sum(ops.cast(sees, "int32"), axis=-1) - 1
        return tuple(Seen(*rotary(positions, self.head_size), bias=ops.where(sees, 0.0, FAR)))

    def compute_output_shape(self, input_shape: tuple) -> tuple:
        batch, length = input_shape
        angles = (batch, length, 1, self.head_size // 2)
        return angles, angles, (batch, length, length)

    def get_config(self) -> dict:
        return {**super().get_config(), "head_size": self.head_size}


def rotary(positions: keras.KerasTensor, head_size: int) -> tuple[keras.KerasTensor, keras.KerasTensor]:
    """Cosines and sines, float32 [batch, length, 1, head_size / 2], of positions, int32 [batch, length].

    The angle of pair i at position p is p · base^(-2i / head_size): Su et al. 2021, equation 15.
    """
    pairs = ops.arange(0, head_size, 2, dtype="float32")
    frequencies = ops.power(_ROTARY_BASE, -pairs / head_size)
    angles = ops.cast(positions, "float32")[:, :, None, None] * frequencies
    return ops.cos(angles), ops.sin(angles)


Merge = Callable[[keras.KerasTensor, keras.KerasTensor], tuple[keras.KerasTensor, keras.KerasTensor]]


@keras.saving.register_keras_serializable("penstock")
class Block(keras.layers.Layer):
    """Attention, then a perceptron; each adds to what it gets: float [batch, length, width]."""

    def __init__(
        self,
        *,
        heads: int,
        key_value_heads: int,
        expansion: int,
        dropout: float,
        output_scale: float,
        **kwargs,
    ) -> None:
        super().__init__(**kwargs)
        self.heads, self.key_value_heads = heads, key_value_heads
        self.expansion, self.dropout, self.output_scale = expansion, dropout, output_scale

    def build(self, input_shape: tuple, *others: tuple) -> None:
        width = input_shape[-1]
        size = width // self.heads
        self.attention_norm = self._norm("attention_norm", width)
        self.query = self._dense("query", width, width)
        self.key = self._dense("key", width, size * self.key_value_heads)
        self.value = self._dense("value", width, size * self.key_value_heads)
        self.query_norm, self.key_norm = self._norm("query_norm", size), self._norm("key_norm", size)
        self.output_projection = self._dense("output", width, width, scale=self.output_scale)
        self.perceptron_norm = self._norm("perceptron_norm", width)
        self.up = self._dense("up", width, self.expansion * width)
        self.down = self._dense("down", self.expansion * width, width, scale=self.output_scale)
        self.drop = keras.layers.Dropout(self.dropout, dtype=self.dtype_policy, name="drop")

    def _dense(self, name: str, inputs: int, units: int, *, scale: float = 1.0) -> keras.layers.Dense:
        # What a block adds starts smaller the more blocks add: Radford et al. 2019, section 2.3.
        initializer = keras.initializers.VarianceScaling(scale, mode="fan_in")
        layer = keras.layers.Dense(
            units, use_bias=False, kernel_initializer=initializer, dtype=self.dtype_policy, name=name
        )
        layer.build((None, inputs))
        return layer

    def _norm(self, name: str, size: int) -> keras.layers.RMSNormalization:
        layer = keras.layers.RMSNormalization(dtype=self.dtype_policy, name=name)
        layer.build((None, size))
        return layer

    def call(
        self,
        x: keras.KerasTensor,
        cos: keras.KerasTensor,
        sin: keras.KerasTensor,
        bias: keras.KerasTensor,
        training: bool = False,
    ) -> keras.KerasTensor:
        return self.extended(x, Seen(cos, sin, bias), training=training)[0]

    def extended(
        self,
        x: keras.KerasTensor,
        seen: Seen,
        *,
        merge: Merge = lambda keys, values: (keys, values),
        training: bool = False,
    ) -> tuple[keras.KerasTensor, tuple[keras.KerasTensor, keras.KerasTensor]]:
        """The block's output, and the keys and values that the tokens see, [batch, heads, length, size].

        Args:
          merge: makes these of the keys and values of `x`.
        """
        normed = self.attention_norm(x)
        query = _turned(self.query_norm(_headed(self.query(normed), self.heads)), seen)
        key = _turned(self.key_norm(_headed(self.key(normed), self.key_value_heads)), seen)
        value = _headed(self.value(normed), self.key_value_heads)
        keys, values = merge(_by_head(key), _by_head(value))
        attended = _attended(_by_head(query), keys, values, seen.bias)
        x = x + self.drop(self.output_projection(attended), training=training)
        hidden = ops.square(ops.relu(self.up(self.perceptron_norm(x))))
        return x + self.drop(self.down(hidden), training=training), (keys, values)

    def compute_output_shape(self, input_shape: tuple, *others: tuple) -> tuple:
        return input_shape

    def get_config(self) -> dict:
        names = ("heads", "key_value_heads", "expansion", "dropout", "output_scale")
        return {**super().get_config(), **{name: getattr(self, name) for name in names}}


def _headed(x: keras.KerasTensor, heads: int) -> keras.KerasTensor:
    """[batch, length, heads · size] → [batch, length, heads, size]."""
    return ops.reshape(x, (-1, x.shape[1], heads, x.shape[-1] // heads))


def _by_head(x: keras.KerasTensor) -> keras.KerasTensor:
    return ops.transpose(x, (0, 2, 1, 3))  # (batch, heads, length, size)


def _turned(x: keras.KerasTensor, seen: Seen) -> keras.KerasTensor:
    """[batch, length, heads, size], each pair (i, i + size / 2) turned by its angle."""
    one, other = ops.split(x, 2, axis=-1)
    cos, sin = ops.cast(seen.cos, x.dtype), ops.cast(seen.sin, x.dtype)
    return ops.concatenate([one * cos - other * sin, other * cos + one * sin], axis=-1)


def _attended(
    query: keras.KerasTensor, keys: keras.KerasTensor, values: keras.KerasTensor, bias: keras.KerasTensor
) -> keras.KerasTensor:
    """Queries [batch, heads, n, size] over keys [batch, shared heads, m, size] → [batch, n, width]."""
    _, heads, n, size = query.shape
    _, shared, m, _ = keys.shape
    group = heads // shared
    # The queries that share keys are rows of one product of matrices: no key is repeated.
    grouped = ops.reshape(query, (-1, shared, group * n, size))
    scores = ops.matmul(grouped, ops.transpose(keys, (0, 1, 3, 2))) * size**-0.5
    # float32: in bfloat16 a softmax over many keys keeps 8 bits.
    scores = ops.reshape(ops.cast(scores, "float32"), (-1, shared, group, n, m))
    scores = scores + ops.cast(bias, "float32")[:, None, None]
    weights = ops.reshape(ops.cast(ops.softmax(scores), values.dtype), (-1, shared, group * n, m))
    attended = ops.reshape(ops.matmul(weights, values), (-1, heads, n, size))
    return ops.reshape(ops.transpose(attended, (0, 2, 1, 3)), (-1, n, heads * size))


# --- One token at a time.

Cache = list[tuple[keras.KerasTensor, keras.KerasTensor]]  # keys and values of each block


class Decoder:
    """Computes what a `transformer` does, for rows of one document each that grow by a token a call.

    Raises:
      ValueError: the model is none that `transformer` built.
    """

    def __init__(self, model: keras.Model) -> None:
        self._blocks = [layer for layer in model.layers if isinstance(layer, Block)]
        packing = [layer for layer in model.layers if isinstance(layer, Packing)]
        if not self._blocks or len(packing) != 1:
            raise ValueError(f"a model that transformer() built is expected; received '{model.name}'.")
        self._packing = packing[0]
        self._embedding, self._norm = model.get_layer("embedding"), model.get_layer("norm")

    def start(self, ids: keras.KerasTensor, last: keras.KerasTensor) -> tuple[keras.KerasTensor, Cache]:
        """Reads the beginning of each row.

        Args:
          ids: int32 [batch, length]; what stands behind `last` is not seen.
          last: int32 [batch], the place of each row's last token.

        Returns:
          Logits of the token after it, float32 [batch, outputs], and the cache, which has room for `length`.
        """
        x, cache = self._embedding(ids), []
        seen = Seen(*self._packing(ops.zeros_like(ids)))
        for block in self._blocks:
            x, kept = block.extended(x, seen)
            cache.append(kept)
        return self._logits(ops.take_along_axis(x, last[:, None, None], axis=1)), cache

    def step(
        self, ids: keras.KerasTensor, places: keras.KerasTensor, cache: Cache
    ) -> tuple[keras.KerasTensor, Cache]:
        """Reads one more token of each row, which costs the same at each place.

        Args:
          ids: int32 [batch].
          places: int32 [batch], where the tokens stand in their rows: below the cache's length.

        Returns:
          Logits of the tokens after these, float32 [batch, outputs], and the cache that holds them.
        """
        slots = ops.arange(cache[0][0].shape[2])
        is_here = ops.equal(slots, places[:, None])[:, None, :, None]  # (batch, 1, length, 1)
        bias = ops.where(slots <= places[:, None], 0.0, FAR)[:, None, :]  # (batch, 1, length)
        seen = Seen(*rotary(places[:, None], self._packing.head_size), bias=bias)
        x, extended = self._embedding(ids[:, None]), []
        for block, (keys, values) in zip(self._blocks, cache, strict=True):
            x, kept = block.extended(
                x,
                seen,
                merge=lambda key, value, keys=keys, values=values: (
                    ops.where(is_here, key, keys),
                    ops.where(is_here, value, values),
                ),
            )
            extended.append(kept)
        return self._logits(x), extended

    def _logits(self, x: keras.KerasTensor) -> keras.KerasTensor:
        return self._embedding(self._norm(x), reverse=True)[:, 0, 1:]
