"""Encoded images → uint8 pixels, in the graph: for training, evaluation and serving alike.

Reads JPEG and PNG, which the conversion stores. A JPEG is turned as its EXIF data say. No image is decoded
that declares more pixels than `max_pixels`; pixels.py raises the errors.
"""

import tensorflow as tf

from pipeline.base.tracing import tf_function
from pipeline.data.images import formats
from pipeline.data.images.crop import DCT_METHOD, Box, JpegPart, decode_part, jpeg_part, times_larger
from pipeline.data.images.pixels import normalize, refuse_format, refuse_subtype, require_pixels, scaled

Shape = tuple[int, int, int]  # height, width, channels


def decode_images(
    encoded: tf.Tensor, shape: Shape, *, max_pixels: int, image_dtype: str = "uint8"
) -> tf.Tensor:
    """Encoded images, string [batch] → `image_dtype` [batch, *shape], as evaluation and serving take them."""
    return tf.map_fn(
        lambda data: normalize(decode_whole(data, shape, max_pixels=max_pixels), image_dtype),
        encoded,
        fn_output_signature=tf.TensorSpec(shape, image_dtype),
    )


def decode_whole(data: tf.Tensor, shape: Shape, *, max_pixels: int) -> tf.Tensor:
    """One encoded image, string [] → uint8 [*shape], the whole picture resized."""
    return _fit(decode_image(data, channels=shape[-1], max_pixels=max_pixels), shape)


def decode_crop(data: tf.Tensor, box: Box, shape: Shape, *, max_pixels: int) -> tf.Tensor:
    """One encoded image, string [] → uint8 [*shape], the part that `box` says, resized.

    In a JPEG only that part is decoded, at a half, quarter or eighth of its size where that is enough.
    """

    def from_jpeg() -> tf.Tensor:
        return _resize(_decode_jpeg_crop(data, box, shape, max_pixels), shape)

    def from_any() -> tf.Tensor:
        image = decode_image(data, channels=shape[-1], max_pixels=max_pixels)
        top, left, height, width = tf.unstack(box(tf.shape(image, tf.int64)[:2]))
        return _resize(image[top : top + height, left : left + width], shape)

    return tf.cond(tf.io.is_jpeg(data), from_jpeg, lambda: tf.ensure_shape(tf_function(from_any)(), shape))


def decode_jpeg_part(data: tf.Tensor, part: JpegPart, shape: Shape) -> tf.Tensor:
    """Decodes a part of an upright JPEG, string [], to uint8 [*shape]; no side may shrink by more than a
    factor of two.
    """
    image = decode_part(data, part, channels=_jpeg_channels(shape[-1]), shrinks=False)
    return tf.ensure_shape(_bilinear(_of_jpeg(image, shape[-1]), shape), shape)


def decode_image(data: tf.Tensor, *, channels: int, max_pixels: int) -> tf.Tensor:
    """One encoded image, string [] → uint8 [height, width, channels], in its own size.

    Raises:
      tf.errors.InvalidArgumentError: the graph refuses it when it runs; see pixels.py.
    """
    head = formats.first_bytes(data)
    readers = {
        formats.JPEG: lambda: _read_jpeg(data, head, channels, max_pixels),
        formats.PNG: lambda: _read_png(data, head, channels, max_pixels),
        formats.UNKNOWN: tf_function(lambda: _refused(refuse_format(head), channels)),
    }
    image = tf.switch_case(formats.format_of(head), readers)
    return tf.ensure_shape(image, [None, None, channels])


def _read_jpeg(data: tf.Tensor, head: tf.Tensor, channels: int, max_pixels: int) -> tf.Tensor:
    allowed = _allowed(data, _jpeg_size(data), max_pixels)
    image = tf.io.decode_jpeg(allowed, channels=_jpeg_channels(channels), dct_method=DCT_METHOD)
    return formats.upright(_of_jpeg(image, channels), formats.of_jpeg(data, head))


def _jpeg_channels(channels: int) -> int:
    """The channels that libjpeg decodes: never grey.

    For grey, libjpeg would just leave out the colour: the result is up to 34 levels wrong, and an error for
    CMYK.
    """
    return 0 if channels == 1 else 3


def _of_jpeg(image: tf.Tensor, channels: int) -> tf.Tensor:
    """Pixels from libjpeg, uint8 [height, width, 1 or 3] → [height, width, channels]."""
    if channels == 1:
        return _grey(image)
    image = tf.ensure_shape(image, [None, None, 3])
    return _with_alpha(image) if channels == 4 else image


def _read_png(data: tf.Tensor, head: tf.Tensor, channels: int, max_pixels: int) -> tf.Tensor:
    allowed = _allowed(data, formats.png_size(head), max_pixels)
    with tf.control_dependencies([allowed]):
        refused = refuse_subtype(formats.is_other_png(data, head, channels=channels), "PNG")
    with tf.control_dependencies([refused] if refused is not None else []):
        return tf.io.decode_png(tf.identity(allowed), channels=channels)


def _allowed(data: tf.Tensor, size: tf.Tensor, max_pixels: int) -> tf.Tensor:
    """Returns `data`, string [], after a check that its size, int64 [2], is within the limit: nothing decodes
    it earlier.
    """
    with tf.control_dependencies([require_pixels(size, max_pixels)]):
        return tf.identity(data)


def _jpeg_size(data: tf.Tensor) -> tf.Tensor:
    return tf.io.extract_jpeg_shape(data, tf.int64)[:2]


def _refused(refusal: tf.Operation | None, channels: int) -> tf.Tensor:
    with tf.control_dependencies([refusal] if refusal is not None else []):
        return tf.zeros([1, 1, channels], tf.uint8)


def _decode_jpeg_crop(data: tf.Tensor, box: Box, shape: Shape, max_pixels: int) -> tf.Tensor:
    """The part that `box` says, uint8 [height, width, channels], shrunk as far as `shape` allows."""
    turn = formats.of_jpeg(data, formats.first_bytes(data))
    stored = require_pixels(_jpeg_size(data), max_pixels)
    size = formats.seen_size(stored, turn)
    seen = box(size)
    part = jpeg_part(
        formats.stored_part(seen, size, turn),
        tf.cast(stored, tf.int32),
        times=times_larger(seen, shape),
    )
    image = decode_part(data, part, channels=_jpeg_channels(shape[-1]))
    return formats.upright(_of_jpeg(image, shape[-1]), turn)


def _grey(image: tf.Tensor) -> tf.Tensor:
    """uint8 [height, width, 1 or 3] → its luma, [height, width, 1]."""

    def of_colour() -> tf.Tensor:
        return tf.image.rgb_to_grayscale(tf.ensure_shape(image, [None, None, 3]))

    grey = tf.cond(tf.shape(image)[2] == 3, tf_function(of_colour), lambda: image)
    return tf.ensure_shape(grey, [None, None, 1])


def _with_alpha(image: tf.Tensor) -> tf.Tensor:
    return tf.concat([image, tf.fill(tf.shape(image[..., :1]), tf.constant(255, tf.uint8))], axis=2)


def _fit(image: tf.Tensor, shape: Shape) -> tf.Tensor:
    """Resizes uint8 [height, width, channels] to [*shape], unless it has this size already."""
    is_sized = tf.reduce_all(tf.shape(image)[:2] == shape[:2])
    fitted = tf.cond(is_sized, lambda: image, tf_function(lambda: _antialiased(image, shape)))
    return tf.ensure_shape(fitted, shape)


def _resize(image: tf.Tensor, shape: Shape) -> tf.Tensor:
    """Resizes uint8 to [*shape]; antialiases only where a side shrinks by more than two.

    Antialiasing costs four times as much; up to a factor of two, plain bilinear resizing uses every pixel
    anyway.
    """
    skips = tf.reduce_any(tf.shape(image)[:2] > [2 * side for side in shape[:2]])
    resized = tf.cond(skips, tf_function(lambda: _antialiased(image, shape)), lambda: _bilinear(image, shape))
    return tf.ensure_shape(resized, shape)


def _antialiased(image: tf.Tensor, shape: Shape) -> tf.Tensor:
    # Without antialiasing, shrinking a photograph four times drops 15 of 16 pixels.
    pixels = tf.image.resize(image, shape[:2], antialias=True)
    return tf.cast(tf.clip_by_value(tf.round(pixels), 0, 255), tf.uint8)


def _bilinear(image: tf.Tensor, shape: Shape) -> tf.Tensor:
    # This runs in float32: on uint8 the operation takes twice as long for the same result, even with the
    # cast. Half a level is added because the cast back cuts off fractions, which would darken every picture.
    pixels = tf.expand_dims(scaled(image, scale=1.0, offset=0.5), axis=0)
    pixels = tf.raw_ops.ResizeBilinear(images=pixels, size=shape[:2], half_pixel_centers=True)
    return tf.squeeze(tf.cast(pixels, tf.uint8), axis=0)
