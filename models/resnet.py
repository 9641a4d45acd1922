"""Residual networks for images: a small one of any size, and the published ones of 18 and 50 layers.

`resnet` is made for few CPU cores. It is pre-activated (He et al. 2016, "Identity Mappings in Deep Residual
Networks") with group normalization (Wu & He 2018): that keeps no running averages, so a model computes the
same in training and serving, on one replica or many.

`resnet18` and `resnet50` are those of He et al. 2015, "Deep Residual Learning for Image Recognition" (table
1), with batch normalization. At 1,000 classes they have the paper's 11.69 and 25.56 million parameters. Three
details are younger, and usual:

- The 3x3 convolution of a bottleneck halves the image, not its first 1x1 ("v1.5": Goyal et al. 2017, section
  5.1, and torchvision).
- The last gamma of each block begins at 0, so that a block begins as its shortcut; the logits' kernel begins
  with a standard deviation of 0.01 (Goyal et al. 2017, section 5.1, too).
- A step keeps 0.9 of the moving statistics, and 1e-5 is added to a variance, as in torchvision (Keras itself:
  0.99 and 1e-3).
"""

from collections.abc import Callable, Sequence

import keras

from models import images

# Images from this side on are detailed enough to be shrunk 4 times before the first block.
_LARGE_IMAGE_PIXELS = 96
_LARGEST_GROUPS = 8
_BOTTLENECK = 4  # how much wider a bottleneck's output is than its 3x3 convolution


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
    """Builds the small network.

    Args:
      image_shape: height, width and channels of an image.
      outputs: how many numbers are predicted for each example.
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
    image, x = images.pixels(image_shape, dtype=image_dtype, rescaling=image_rescaling)
    x = _stem(x, widths[0], _stem_stride(stem_stride, image_shape))
    for stage, width in enumerate(widths):
        for block in range(blocks_per_stage):
            x = _block(x, width, stride=2 if stage and not block else 1)
    x = keras.layers.GlobalAveragePooling2D()(_normalize_and_activate(x))  # (batch, widths[-1])
    return keras.Model([image], images.logits(x, outputs, dropout=dropout), name="resnet")


def _stem_stride(given: int, image_shape: tuple[int, int, int]) -> int:
    if given not in (0, 1, 2, 4):
        raise ValueError(f"stem_stride must be 0, 1, 2 or 4, and received {given}.")
    return given or (4 if min(image_shape[:2]) >= _LARGE_IMAGE_PIXELS else 1)


def _stem(x: keras.KerasTensor, width: int, stride: int) -> keras.KerasTensor:
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


def _convolution(width: int, size: int, *, stride: int = 1, padding: str = "same") -> keras.layers.Conv2D:
    return keras.layers.Conv2D(
        width, size, strides=stride, padding=padding, use_bias=False, kernel_initializer="he_normal"
    )


# --- The published networks.


def resnet18(
    *,
    image_shape: tuple[int, int, int],
    outputs: int,
    image_dtype: str = "uint8",
    image_rescaling: tuple[float, float] | None,
    width: int = 64,
    stem_stride: int = 0,
    dropout: float = 0.0,
) -> keras.Model:
    """Builds ResNet-18: stages of 2, 2, 2 and 2 blocks of two 3x3 convolutions.

    Args:
      width: channels of the first stage; each further stage has twice as many. 64 is the published network.
      stem_stride: 4 is the published stem, 7x7 with stride 2 and a pool; 1 and 2 are a 3x3 convolution with
        this stride and no pool, for small images; 0: 4 for large images, else 1.

    `resnet` says what the other arguments are, what is returned and what is raised.
    """
    image, x = images.pixels(image_shape, dtype=image_dtype, rescaling=image_rescaling)
    x = _published_stem(x, width, _stem_stride(stem_stride, image_shape))
    x = _published_stages(x, _plain, width, blocks=(2, 2, 2, 2))
    return keras.Model([image], _published_logits(x, outputs, dropout), name="resnet18")


def resnet50(
    *,
    image_shape: tuple[int, int, int],
    outputs: int,
    image_dtype: str = "uint8",
    image_rescaling: tuple[float, float] | None,
    width: int = 64,
    stem_stride: int = 0,
    dropout: float = 0.0,
) -> keras.Model:
    """Builds ResNet-50: stages of 3, 4, 6 and 3 bottlenecks, 1x1, 3x3 and 1x1; arguments as in `resnet18`."""
    image, x = images.pixels(image_shape, dtype=image_dtype, rescaling=image_rescaling)
    x = _published_stem(x, width, _stem_stride(stem_stride, image_shape))
    x = _published_stages(x, _bottleneck, width, blocks=(3, 4, 6, 3))
    return keras.Model([image], _published_logits(x, outputs, dropout), name="resnet50")


Residual = Callable[..., keras.KerasTensor]  # what a block adds to its shortcut, of (x, width, stride=)


def _published_stem(x: keras.KerasTensor, width: int, stride: int) -> keras.KerasTensor:
    if stride < 4:
        return _relu(_normalized(_padded_convolution(x, width, 3, stride=stride)))
    x = _relu(_normalized(_padded_convolution(x, width, 7, stride=2)))
    # What is padded is 0, and so no more than any output of the ReLU.
    return keras.layers.MaxPooling2D(3, strides=2)(keras.layers.ZeroPadding2D(1)(x))


def _published_stages(
    x: keras.KerasTensor, residual: Residual, width: int, *, blocks: Sequence[int]
) -> keras.KerasTensor:
    for stage, count in enumerate(blocks):
        for block in range(count):
            stride = 2 if stage and not block else 1
            added = residual(x, width * 2**stage, stride=stride)
            is_same = added.shape == x.shape
            shortcut = x if is_same else _normalized(_convolution(added.shape[-1], 1, stride=stride)(x))
            x = _relu(keras.layers.Add()([shortcut, added]))
    return x


def _plain(x: keras.KerasTensor, width: int, *, stride: int) -> keras.KerasTensor:
    x = _relu(_normalized(_padded_convolution(x, width, 3, stride=stride)))
    return _normalized(_convolution(width, 3)(x), is_last=True)


def _bottleneck(x: keras.KerasTensor, width: int, *, stride: int) -> keras.KerasTensor:
    x = _relu(_normalized(_convolution(width, 1)(x)))
    x = _relu(_normalized(_padded_convolution(x, width, 3, stride=stride)))
    return _normalized(_convolution(_BOTTLENECK * width, 1)(x), is_last=True)


def _published_logits(x: keras.KerasTensor, outputs: int, dropout: float) -> keras.KerasTensor:
    pooled = keras.layers.GlobalAveragePooling2D()(x)
    initializer = keras.initializers.RandomNormal(stddev=0.01)
    return images.logits(pooled, outputs, dropout=dropout, initializer=initializer)


def _padded_convolution(x: keras.KerasTensor, width: int, size: int, *, stride: int) -> keras.KerasTensor:
    """The published convolution, with zeros on both sides; Keras pads a strided image at its end alone."""
    if stride == 1:
        return _convolution(width, size)(x)
    x = keras.layers.ZeroPadding2D(size // 2)(x)
    return _convolution(width, size, stride=stride, padding="valid")(x)


def _normalized(x: keras.KerasTensor, *, is_last: bool = False) -> keras.KerasTensor:
    gamma = "zeros" if is_last else "ones"
    return keras.layers.BatchNormalization(momentum=0.9, epsilon=1e-5, gamma_initializer=gamma)(x)


def _relu(x: keras.KerasTensor) -> keras.KerasTensor:
    return keras.layers.Activation("relu")(x)
