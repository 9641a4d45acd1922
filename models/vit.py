"""A vision transformer: an image is a row of patches, and each patch sees all others.

Dosovitskiy et al. 2021, "An Image is Worth 16x16 Words", in the plainer form of Beyer, Zhai & Kolesnikov
2022, "Better plain ViT baselines for ImageNet-1k": fixed positions of sines and cosines in two dimensions,
and one linear layer, which begins at 0, on the mean of all patches; no class token. Blocks are pre-norm, with
biases, layer normalization and GELU. They are made of Keras's own layers: `Block` of models/transformer.py
has other parameters (no biases, root mean square normalization, rotary positions). Keras (3.15) computes the
softmax of attention in float32 under every precision policy, as long as no dropout is applied to its weights;
a test holds this.

Sizes as published, at patches of 16x16 pixels (Ti and S: Touvron et al. 2021, "DeiT", table 1):

| | width | depth | heads | parameters at 1,000 classes and 224x224x3 |
|---|---|---|---|---|
| Ti/16 | 192 | 12 | 3 | 5.68 million: 5.72 with DeiT's class token and learned positions |
| S/16 | 384 | 12 | 6 | 21.97 million: 22.05 with these |
"""

import keras
import numpy as np
from keras import ops

from models import images

_TEMPERATURE = 10_000.0  # scale of the positions: Beyer et al. 2022, as in Vaswani et al. 2017
_EPSILON = 1e-6  # for layer normalization, from the authors' code
POOLS = ("average", "attention")


def vit(
    *,
    image_shape: tuple[int, int, int],
    outputs: int,
    image_dtype: str = "uint8",
    image_rescaling: tuple[float, float] | None,
    patch: int = 16,
    width: int = 192,
    depth: int = 12,
    heads: int = 3,
    expansion: int = 4,
    pool: str = "average",
    dropout: float = 0.0,
) -> keras.Model:
    """Builds the network; by default Ti/16.

    Args:
      image_shape: height, width and channels of an image.
      outputs: how many numbers are predicted for each example.
      image_rescaling: scale and offset that its pixels still need; None: they are normalised already.
      patch: pixels of a patch's side, which divides height and width: 16 for photographs, 4 for images
        of 28 or 32 pixels.
      width: numbers that describe a patch between the layers, a multiple of 4.
      depth: blocks, of attention and of a perceptron each.
      heads: heads of attention, `width / heads` numbers each.
      expansion: hidden units of a perceptron, times the width.
      pool: what the patches become: their mean ("average"), or what one learned query sees of them
        ("attention": Zhai et al. 2022, "Scaling Vision Transformers", section 2.3).
      dropout: fraction of what a block adds, and of the pooled features, that is dropped in training.

    Returns:
      Model from {"image": [batch, *image_shape]} to float32 logits [batch, outputs].

    Raises:
      ValueError: sizes do not fit each other, or there is no such pool.
    """
    _require(image_shape=image_shape, patch=patch, width=width, heads=heads, pool=pool)
    image, x = images.pixels(image_shape, dtype=image_dtype, rescaling=image_rescaling)
    x = keras.layers.Conv2D(width, patch, strides=patch, name="patches")(x)  # (batch, rows, columns, width)
    x = keras.layers.Reshape((-1, width), name="row")(
        Positions(name="positions")(x)
    )  # (batch, patches, width)
    for number in range(depth):
        x = _block(x, f"block_{number}", heads=heads, expansion=expansion, dropout=dropout)
    x = _norm("norm")(x)
    if pool == "attention":
        x = _seen_by_one_query(x, heads=heads, expansion=expansion)
    x = keras.layers.GlobalAveragePooling1D(name="pool")(x)  # (batch, width)
    logits = images.logits(x, outputs, dropout=dropout, initializer="zeros")
    return keras.Model([image], logits, name="vit")


def _require(*, image_shape: tuple[int, int, int], patch: int, width: int, heads: int, pool: str) -> None:
    height, across, _ = image_shape
    if patch < 1 or height % patch or across % patch:
        fitting = [n for n in range(1, min(height, across) + 1) if not (height % n or across % n)]
        raise ValueError(
            f"patch must divide the image's sides, {height} and {across} pixels: one of {fitting}; "
            f"received {patch}."
        )
    if heads < 1 or width % heads or width % 4:
        raise ValueError(f"width must be a multiple of 4 and of heads; received {width} and {heads} heads.")
    if pool not in POOLS:
        raise ValueError(f"pool must be one of {', '.join(POOLS)}; received {pool!r}.")


def _block(
    x: keras.KerasTensor, name: str, *, heads: int, expansion: int, dropout: float
) -> keras.KerasTensor:
    normed = _norm(f"{name}_attention_norm")(x)
    attention = keras.layers.MultiHeadAttention(heads, x.shape[-1] // heads, name=f"{name}_attention")
    x = _added(x, attention(normed, normed), dropout)
    return _added(x, _perceptron(_norm(f"{name}_perceptron_norm")(x), name, expansion), dropout)


def _added(x: keras.KerasTensor, more: keras.KerasTensor, dropout: float) -> keras.KerasTensor:
    return keras.layers.Add()([x, keras.layers.Dropout(dropout)(more)])


def _perceptron(x: keras.KerasTensor, name: str, expansion: int) -> keras.KerasTensor:
    width = x.shape[-1]
    hidden = keras.layers.Dense(expansion * width, activation="gelu", name=f"{name}_up")(x)
    return keras.layers.Dense(width, name=f"{name}_down")(hidden)


def _norm(name: str) -> keras.layers.LayerNormalization:
    return keras.layers.LayerNormalization(epsilon=_EPSILON, name=name)


def _seen_by_one_query(x: keras.KerasTensor, *, heads: int, expansion: int) -> keras.KerasTensor:
    """[batch, patches, width] → [batch, 1, width]."""
    attention = keras.layers.MultiHeadAttention(heads, x.shape[-1] // heads, name="pool_attention")
    seen = attention(Query(name="pool_query")(x), x)
    return keras.layers.Add()([seen, _perceptron(_norm("pool_norm")(seen), "pool", expansion)])


@keras.saving.register_keras_serializable("penstock")
class Positions(keras.layers.Layer):
    """Adds its position to each patch of a grid, float [batch, rows, columns, width]."""

    def build(self, input_shape: tuple) -> None:
        self._grid = sines(*input_shape[1:])

    def call(self, x: keras.KerasTensor) -> keras.KerasTensor:
        return x + ops.cast(self._grid, x.dtype)

    def compute_output_shape(self, input_shape: tuple) -> tuple:
        return input_shape


def sines(rows: int, columns: int, width: int) -> np.ndarray:
    """Sines and cosines of each place's column and row, float32 [rows, columns, width].

    A quarter of the numbers each: sin(x·ω), cos(x·ω), sin(y·ω), cos(y·ω), with ω from 1 down to 1/10,000 in
    equal ratios (`posemb_sincos_2d` of big_vision, the code of Beyer et al. 2022).

    Args:
      width: a multiple of 4.
    """
    quarter = width // 4
    frequencies = _TEMPERATURE ** -(np.arange(quarter) / max(1, quarter - 1))
    y, x = np.meshgrid(np.arange(rows), np.arange(columns), indexing="ij")
    across, down = x[..., None] * frequencies, y[..., None] * frequencies
    parts = (np.sin(across), np.cos(across), np.sin(down), np.cos(down))
    return np.concatenate(parts, axis=-1).astype("float32")


@keras.saving.register_keras_serializable("penstock")
class Query(keras.layers.Layer):
    """One learned query for each example: float [batch, patches, width] → [batch, 1, width]."""

    def build(self, input_shape: tuple) -> None:
        self.query = self.add_weight(
            (1, 1, input_shape[-1]), initializer=keras.initializers.GlorotUniform(), name="query"
        )

    def call(self, x: keras.KerasTensor) -> keras.KerasTensor:
        return ops.broadcast_to(self.query, (ops.shape(x)[0], 1, x.shape[-1]))

    def compute_output_shape(self, input_shape: tuple) -> tuple:
        return input_shape[0], 1, input_shape[-1]
