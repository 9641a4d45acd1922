"""RandAugment (Cubuk et al. 2020): a few operations drawn from a fixed list, all of one strength.

The list is the paper's. It does not say how far each operation goes, and implementations differ. Here
strengths, directions and centres are those of torchvision's RandAugment, bilinear, whose magnitudes 0 to 30
are here 0 to 10. Operations that move pixels give those of torchvision's tensors; the others give Pillow's.
keras.layers.RandAugment computes every operation for every image and keeps one, drawn from a generator whose
state depends on the order of calls; here only the drawn one runs. The module also has the simple changes:
colours, flips, affine maps.
"""

import math
from collections.abc import Callable, Sequence

import tensorflow as tf

from pipeline.base.errors import InputError
from pipeline.data.images.augmentation import LARGEST_MAGNITUDE
from pipeline.data.images.pixels import Draws, scaled

_LARGEST_CHANGE = 0.9  # largest change of brightness, contrast, saturation and sharpness
_LARGEST_TURN = math.radians(30.0)
_LARGEST_SHEAR = 0.3
_LARGEST_SHIFT = 150 / 331  # fraction of the side: AutoAugment moved images of 331 pixels by 150
_UNCHANGED = ((1.0, 0.0), (0.0, 1.0))
_CORNER = (-0.5, -0.5)  # the outer corner of the upper left pixel
_LEAST_BITS = 4
_SHARP = ((0.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 0.0))
_SMOOTH = ((1.0, 1.0, 1.0), (1.0, 5.0, 1.0), (1.0, 1.0, 1.0))

# Every operation takes an image and an amount, and gives an image.
Image = tf.Tensor  # uint8 [height, width, 1 or 3]
Amount = tf.Tensor  # float32 [], -1 to 1; operations of one direction take its absolute value


def rand_augment(image: Image, draws: Draws, *, operations: int, magnitude: float) -> Image:
    """Applies `operations` random operations, one after another.

    Args:
      image: uint8 [height, width, 1 or 3]; the result has the same shape and dtype.
      magnitude: 0 to LARGEST_MAGNITUDE; the direction is drawn.
    """
    if image.shape[2] not in (1, 3):
        raise InputError(
            "augmentation 'rand_augment'",
            received=f"an image of {image.shape[2]} channels",
            expected="1 or 3: its operations would change transparency",
            action="Set --config.augmentation.rand_augment=0; or set the schema's channels to 3, and "
            "convert again.",
        )
    for number in range(operations):
        which, direction = drawn(draws, number)
        image = _one_of(image, direction * (magnitude / LARGEST_MAGNITUDE), which)
    return image


def drawn(draws: Draws, number: int) -> tuple[tf.Tensor, tf.Tensor]:
    """Draws the `number`-th operation, int32 [], and its direction, -1 or 1, float32 []; uniform."""
    which, direction = draws.uniform(f"rand_augment {number}", 2)
    return tf.cast(which * len(OPERATIONS), tf.int32), tf.where(direction < 0.5, -1.0, 1.0)


def _one_of(image: Image, amount: Amount, which: tf.Tensor) -> Image:
    branches = [lambda operation=operation: operation(image, amount) for operation in OPERATIONS]
    return tf.ensure_shape(tf.switch_case(which, branches), image.shape)


def identity(image: Image, amount: Amount) -> Image:
    return image


def auto_contrast(image: Image, amount: Amount) -> Image:
    """Stretches each channel to 0 … 255: Pillow's autocontrast, rounded where Pillow cuts off."""
    pixels = tf.cast(image, tf.float32)
    least, most = tf.reduce_min(pixels, axis=[0, 1]), tf.reduce_max(pixels, axis=[0, 1])
    # A channel with one level only stays as it is.
    lowest = tf.where(most > least, least, 0.0)
    scale = tf.where(most > least, 255.0 / tf.maximum(most - least, 1.0), 1.0)
    return to_uint8((pixels - lowest) * scale)


def equalize(image: Image, amount: Amount) -> Image:
    """Gives each channel a histogram as flat as whole levels allow: Pillow's equalize, bit for bit."""
    channels = image.shape[2]
    # The histogram of each channel, one after another.
    levels = tf.cast(image, tf.int32) + 256 * tf.range(channels)
    counts = tf.raw_ops.DenseBincount(
        input=tf.reshape(levels, [-1]), size=256 * channels, weights=tf.zeros([0], tf.int32)
    )
    counts = tf.reshape(counts, [channels, 256])
    below = tf.cumsum(counts, axis=1, exclusive=True)
    step = tf.reduce_max(tf.where(counts > 0, below, 0), axis=1, keepdims=True) // 255
    flat = tf.minimum((step // 2 + below) // tf.maximum(step, 1), 255)
    table = tf.cast(tf.where(step > 0, flat, tf.range(256)), tf.uint8)
    return tf.gather(tf.reshape(table, [-1]), levels)


def rotate(image: Image, amount: Amount) -> Image:
    """Turns about the centre, up to _LARGEST_TURN."""
    cosine, sine = tf.cos(_LARGEST_TURN * amount), tf.sin(_LARGEST_TURN * amount)
    return affine(image, [[cosine, -sine], [sine, cosine]])


def shear_x(image: Image, amount: Amount) -> Image:
    """Shifts rows sideways, in proportion to their distance from the upper edge, as in AutoAugment's code."""
    return affine(image, [[1.0, _LARGEST_SHEAR * amount], [0.0, 1.0]], about=_CORNER)


def shear_y(image: Image, amount: Amount) -> Image:
    """Shifts columns up or down, in proportion to their distance from the left edge, as in AutoAugment's
    code.
    """
    return affine(image, [[1.0, 0.0], [_LARGEST_SHEAR * amount, 1.0]], about=_CORNER)


def shift_x(image: Image, amount: Amount) -> Image:
    """Moves sideways by whole pixels, up to _LARGEST_SHIFT of the width."""
    return affine(image, _UNCHANGED, shift=(_whole(_LARGEST_SHIFT * image.shape[1] * amount), 0.0))


def shift_y(image: Image, amount: Amount) -> Image:
    """Moves up or down by whole pixels, up to _LARGEST_SHIFT of the height."""
    return affine(image, _UNCHANGED, shift=(0.0, _whole(_LARGEST_SHIFT * image.shape[0] * amount)))


def _whole(pixels: tf.Tensor) -> tf.Tensor:
    """Cuts off the fractions."""
    return tf.sign(pixels) * tf.floor(tf.abs(pixels))


def brightness(image: Image, amount: Amount) -> Image:
    """Scales all levels."""
    return adjust(image, brightness=1.0 + _LARGEST_CHANGE * amount)


def contrast(image: Image, amount: Amount) -> Image:
    """Scales about the image's mean luma."""
    return adjust(image, contrast=1.0 + _LARGEST_CHANGE * amount)


def saturation(image: Image, amount: Amount) -> Image:
    """Scales each pixel about its own luma."""
    return adjust(image, saturation=1.0 + _LARGEST_CHANGE * amount)


def sharpness(image: Image, amount: Amount) -> Image:
    """Moves pixels away from, or towards, the mean of their neighbours, where the pixel itself counts five
    times.

    As in Pillow, pixels on the edge stay.
    """
    height, width, channels = image.shape
    if height < 3 or width < 3:
        return image
    pixels = tf.cast(image, tf.float32)
    kernel = (tf.constant(_SHARP) - tf.constant(_SMOOTH) / 13.0)[:, :, None, None]
    kernel = tf.tile(kernel, [1, 1, channels, 1])
    detail = tf.nn.depthwise_conv2d(pixels[None], kernel, strides=[1, 1, 1, 1], padding="VALID")[0]
    detail = tf.pad(detail, [[1, 1], [1, 1], [0, 0]])
    return to_uint8(pixels + _LARGEST_CHANGE * amount * detail)


def solarize(image: Image, amount: Amount) -> Image:
    """Inverts pixels that are as bright as a threshold, or brighter."""
    threshold = 255.0 - 255.0 * tf.abs(amount)  # exactly a whole number where it should be one
    is_bright = tf.cast(image, tf.float32) >= threshold
    return tf.compat.v1.where(is_bright, 255 - image, image)  # `tf.where` would broadcast, in twice the time


def posterize(image: Image, amount: Amount) -> Image:
    """Keeps the upper bits of each value."""
    dropped = tf.cast(tf.round((8 - _LEAST_BITS) * tf.abs(amount)), tf.uint8)
    return tf.bitwise.left_shift(tf.bitwise.right_shift(image, dropped), dropped)


OPERATIONS: tuple[Callable[[Image, Amount], Image], ...] = (
    identity,
    auto_contrast,
    equalize,
    rotate,
    solarize,
    saturation,
    posterize,
    contrast,
    brightness,
    sharpness,
    shear_x,
    shear_y,
    shift_x,
    shift_y,
)


# --- Brightness, contrast, saturation and hue of an image, as Pillow and torchvision define them.

Factor = tf.Tensor | float  # float32 []

# ITU-R BT.601 in 16 bits, as Pillow has it: whole numbers, so that a luma is exact in float32.
_LUMA = (19595 / 65536, 38470 / 65536, 7471 / 65536)
_HUES = (0.0, 2.0, -2.0)  # places of red, green and blue on a circle of 6


def jitter(
    image: tf.Tensor, draws: Draws, *, brightness: float, contrast: float, saturation: float, hue: float
) -> tf.Tensor:
    """Changes colours by factors drawn from 1 ± each limit, uniformly; `hue` is in turns, at most 0.5.

    The ranges are those of torchvision's ColorJitter, which also draws the order of the four, and clips after
    each.

    Args:
      image: uint8 [height, width, 1, 3 or 4].

    Returns:
      The same shape and dtype.
    """
    limits = {"brightness": brightness, "contrast": contrast, "saturation": saturation, "hue": hue}
    changes = dict(zip(limits, draws.symmetric("colour", *limits.values()), strict=True))
    neutral = {name: 0.0 if name == "hue" else 1.0 for name in limits}
    return adjust(image, **{name: neutral[name] + changes[name] for name, limit in limits.items() if limit})


def adjust(
    image: tf.Tensor,
    *,
    brightness: Factor = 1.0,
    contrast: Factor = 1.0,
    saturation: Factor = 1.0,
    hue: Factor = 0.0,
) -> tf.Tensor:
    """Applies the factors, each float32 [], to uint8 [height, width, 1, 3 or 4]; the shape stays.

    The first three are those of Pillow's ImageEnhance: brightness scales; contrast scales about the mean of
    all lumas, a whole number; saturation scales about each pixel's own luma. They are linear, so they cost
    one multiplication by a matrix; the result is clipped once. Then hue turns the circle of HSV, as
    torchvision's adjust_hue does. Levels are rounded, where Pillow cuts them off.
    """
    channels = image.shape[2]
    if channels == 4:
        factors = {"brightness": brightness, "contrast": contrast, "saturation": saturation, "hue": hue}
        return tf.concat([adjust(image[..., :3], **factors), image[..., 3:]], axis=2)
    pixels = scaled(tf.reshape(image, [-1, channels]), scale=1.0, offset=0.0)
    mapped = _mixed(pixels, brightness * contrast, saturation)
    if _changes(contrast, 1.0):
        mapped += (1.0 - contrast) * brightness * _mean_luma(pixels)
    if channels == 3 and _changes(hue, 0.0):
        mapped = _turned(tf.clip_by_value(mapped, 0.0, 255.0), hue)
    return tf.reshape(to_uint8(mapped), image.shape)


def to_uint8(pixels: tf.Tensor) -> tf.Tensor:
    """float32, of any shape → the nearest of 0 … 255, uint8 of the same shape."""
    return tf.cast(tf.clip_by_value(pixels, 0.0, 255.0) + 0.5, tf.uint8)


def _changes(factor: Factor, neutral: float) -> bool:
    """Returns whether the factor may change anything; a tensor may, because its value is not known before the
    graph runs.
    """
    return tf.is_tensor(factor) or factor != neutral


def _mixed(pixels: tf.Tensor, factor: Factor, saturation: Factor) -> tf.Tensor:
    """Scales pixels by `factor`, and about their own lumas by `saturation`: float32 [n, 1 or 3] → the
    same.
    """
    if pixels.shape[1] == 1 or not _changes(saturation, 1.0):
        return pixels * factor
    grey = tf.tile(tf.constant(_LUMA)[:, None], [1, 3])
    return pixels @ (factor * (saturation * tf.eye(3) + (1.0 - saturation) * grey))


def _mean_luma(pixels: tf.Tensor) -> tf.Tensor:
    """The rounded mean of the pixels' rounded lumas: float32 [n, 1 or 3] → float32 []."""
    if pixels.shape[1] == 3:
        pixels = tf.floor(tf.linalg.matvec(pixels, tf.constant(_LUMA)) + 0.5)
    return tf.floor(tf.reduce_mean(pixels) + 0.5)


def _turned(pixels: tf.Tensor, turns: Factor) -> tf.Tensor:
    """Turns hues on the circle of HSV: float32 [n, 3] → the same. The greatest and the least value of a pixel
    stay.

    A. R. Smith, "Color Gamut Transform Pairs" (1978). A hue is stored multiplied by its pixel's chroma (the
    greatest value less the least). This needs no division, and takes nearly half of the CPU time of AdjustHue
    (TensorFlow 2.21, measured).
    """
    red, green, blue = tf.unstack(pixels, axis=1)
    most = tf.maximum(tf.maximum(red, green), blue)
    least = tf.minimum(tf.minimum(red, green), blue)
    chroma = most - least
    of_green, of_blue = 2.0 * chroma + blue - red, red - green - 2.0 * chroma
    hue = tf.where(tf.equal(red, most), green - blue, tf.where(tf.equal(green, most), of_green, of_blue))
    turned = []
    for own in _HUES:
        by = tf.math.floormod(6.0 * turns - own + 3.0, 6.0) - 3.0
        from_opposite = tf.abs(tf.abs(hue + by * chroma) - 3.0 * chroma)  # opposite of the channel's own hue
        turned.append(tf.clip_by_value(from_opposite - chroma + least, least, most))
    return tf.transpose(tf.stack(turned))


# --- Flips and affine maps of an image: shifts, turns, changes of scale, shears.

Number = tf.Tensor | float  # float32 []


def flip(image: tf.Tensor, draws: Draws) -> tf.Tensor:
    """Mirrors left to right, half of the time: uint8 [height, width, channels] → the same."""
    (number,) = draws.uniform("flip", 1)
    return tf.cond(number < 0.5, lambda: tf.reverse(image, [1]), lambda: image)


def move(image: tf.Tensor, draws: Draws, *, shift: float, rotate_degrees: float, zoom: float) -> tf.Tensor:
    """Turns and scales an image about its centre, then shifts it, as torchvision's RandomAffine does.

    Each amount is uniform up to its limit, either way. torchvision shifts by whole pixels.

    Args:
      image: uint8 [height, width, channels]; the result has the same shape and dtype.
      shift: as a fraction of the side.
      zoom: 0.1 means a scale of 0.9 to 1.1.
    """
    angle, change, right, down = draws.symmetric("move", math.radians(rotate_degrees), zoom, shift, shift)
    scale = 1.0 / (1.0 + change)
    cosine, sine = scale * tf.cos(angle), scale * tf.sin(angle)
    height, width = image.shape[:2]
    return affine(image, [[cosine, -sine], [sine, cosine]], shift=(right * width, down * height))


def affine(
    image: tf.Tensor,
    matrix: Sequence[Sequence[Number]],
    *,
    shift: Sequence[Number] = (0.0, 0.0),
    about: tuple[float, float] | None = None,
) -> tf.Tensor:
    """Maps an image, bilinearly and rounded; everything outside it is black.

    Args:
      image: uint8 [height, width, channels]; the result has the same shape and dtype.
      matrix: 2 x 2, from an output pixel's (x, y), in pixels from `about`, to its source in `image`.
      shift: (x, y), in pixels, by which the result is moved to the right and down.
      about: (x, y), in pixels from the centre of the upper left one; by default the centre of the image.
    """
    (xx, xy), (yx, yy) = matrix
    x, y = about or ((image.shape[1] - 1) / 2, (image.shape[0] - 1) / 2)
    right, down = x + shift[0], y + shift[1]
    rows = [xx, xy, x - xx * right - xy * down, yx, yy, y - yx * right - yy * down, 0.0, 0.0]
    # On uint8 the operation cuts fractions off: a picture would lose 0.4 of a level each time. So half a
    # level is added to the pixels and to the area outside; then the last cast rounds, at no cost.
    moved = tf.raw_ops.ImageProjectiveTransformV3(
        images=scaled(image, scale=1.0, offset=0.5)[None],
        transforms=tf.stack([tf.cast(value, tf.float32) for value in rows])[None],
        output_shape=image.shape[:2],
        fill_value=0.5,
        interpolation="BILINEAR",
        fill_mode="CONSTANT",
    )
    return tf.cast(moved[0], tf.uint8)
