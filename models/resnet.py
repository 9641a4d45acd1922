"""A pre-activation residual network for images of any size.

He et al. 2016, "Identity Mappings in Deep Residual Networks", with group normalization (Wu & He 2018): it
keeps no running averages, so a model computes the same in training and serving, on one replica or many.
"""

from collections.abc import Sequence

import keras

# Images from this side on are detailed enough to be shrunk 4 times before the first block.
_LARGE_IMAGE_PIXELS = 96
_LARGEST_GROUPS = 8


def resnet(
    *,
    image_shape: tuple[int, int, int],
    outputs: int,
    image_dtype: str = "uint8",
    image_rescaling: tuple[float, float] | None,
    widths: Sequence[int] = (32, 64, 128),
    blocks_per_stage: int = 2,
    stem_stride: int = 0,
    dropout: float = 0.0,
) -> keras.Model:
    """Builds the network.

    Args:
      image_shape: height, width and channels of an image.
      outputs: numbers predicted for each example.
      image_rescaling: scale and offset that its pixels still need; None: they are normalised already.
      widths: channels of each stage; every stage after the first halves height and width.
      blocks_per_stage: residual blocks, two 3x3 convolutions each, in every stage.
      stem_stride: how much the first layers shrink the image: 1, 2 or 4; 0: 4 for large images, else 1.
      dropout: fraction of the pooled features dropped in training.

    Returns:
      Model from {"image": [batch, *image_shape]} to float32 logits [batch, outputs].

    Raises:
      ValueError: `stem_stride` has another value.
    """
    image = keras.Input(image_shape, dtype=image_dtype, name="image")
    x = image
    if image_rescaling:
        scale, offset = image_rescaling
        x = keras.layers.Rescaling(scale, offset=offset)(x)
    x = _stem(x, widths[0], stem_stride or (4 if min(image_shape[:2]) >= _LARGE_IMAGE_PIXELS else 1))
    for stage, width in enumerate(widths):
        for block in range(blocks_per_stage):
            x = _block(x, width, stride=2 if stage and not block else 1)
    x = _normalize_and_activate(x)
    x = keras.layers.GlobalAveragePooling2D()(x)  # (batch, widths[-1])
    x = keras.layers.Dropout(dropout)(x)
    # float32 whatever the precision policy: bfloat16 logits would cost accuracy and leak into exports.
    logits = keras.layers.Dense(outputs, dtype="float32", name="logits")(x)
    return keras.Model([image], logits, name="resnet")


def _stem(x: keras.KerasTensor, width: int, stride: int) -> keras.KerasTensor:
    if stride not in (1, 2, 4):
        raise ValueError(f"stem_stride must be 0, 1, 2 or 4, and received {stride}.")
    if stride < 4:
        return _convolution(width, 3, stride=stride)(x)
    x = _convolution(width, 7, stride=2)(x)
    return keras.layers.MaxPooling2D(3, strides=2, padding="same")(x)


def _block(x: keras.KerasTensor, width: int, *, stride: int) -> keras.KerasTensor:
    activated = _normalize_and_activate(x)
    changes_shape = stride > 1 or x.shape[-1] != width
    shortcut = _convolution(width, 1, stride=stride)(activated) if changes_shape else x
    residual = _convolution(width, 3, stride=stride)(activated)
    residual = _convolution(width, 3)(_normalize_and_activate(residual))
    return keras.layers.Add()([shortcut, residual])


def _normalize_and_activate(x: keras.KerasTensor) -> keras.KerasTensor:
    normalized = keras.layers.GroupNormalization(groups=_groups(x.shape[-1]))(x)
    return keras.layers.Activation("relu")(normalized)


def _groups(width: int) -> int:
    """The most groups, eight at most, that divide `width` evenly."""
    return next(groups for groups in range(_LARGEST_GROUPS, 0, -1) if width % groups == 0)


def _convolution(width: int, size: int, *, stride: int = 1) -> keras.layers.Conv2D:
    return keras.layers.Conv2D(
        width, size, strides=stride, padding="same", use_bias=False, kernel_initializer="he_normal"
    )
