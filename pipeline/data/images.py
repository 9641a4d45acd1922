"""Encoded images → uint8 pixels, in the graph: for training, evaluation and serving alike.

Reads JPEG, PNG, BMP, and the first frame of GIF and WebP. Nothing is decoded that declares more pixels than
`max_pixels`; see image_limit.py for what is raised then.
"""

import functools
from collections.abc import Callable

import tensorflow as tf

from pipeline.data import first_frame, image_header
from pipeline.data.graph import apart
from pipeline.data.image_limit import refuse_format, refuse_webp, require_pixels
from pipeline.data.pixels import normalize, scaled

Shape = tuple[int, int, int]  # height, width, channels
# Of an image's height and width, int64 [2]: the part to cut out, int32 [4] (top, left, height, width).
Box = Callable[[tf.Tensor], tf.Tensor]

SHRINKS = (2, 4, 8)  # what a JPEG decoder can divide both sides by, making so many times fewer pixels
DCT_METHOD = (
    "INTEGER_ACCURATE"  # bit for bit what Pillow reads; TensorFlow's default is off by up to 5, no faster
)


def decode_images(
    encoded: tf.Tensor, shape: Shape, *, max_pixels: int, image_dtype: str = "uint8"
) -> tf.Tensor:
    """Encoded images, string [batch] → [batch, *shape], as evaluation and serving take them."""
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

    Of a JPEG only that part is decoded, at a half, quarter or eighth of its size where that is enough.
    """

    def from_jpeg() -> tf.Tensor:
        return _resize(_decode_jpeg_crop(data, box, shape, max_pixels), shape)

    def from_any() -> tf.Tensor:
        image = decode_image(data, channels=shape[-1], max_pixels=max_pixels)
        top, left, height, width = tf.unstack(box(tf.shape(image, tf.int64)[:2]))
        return _fit(image[top : top + height, left : left + width], shape)

    return tf.cond(tf.io.is_jpeg(data), from_jpeg, lambda: tf.ensure_shape(apart(from_any)(), shape))


def decode_image(data: tf.Tensor, *, channels: int, max_pixels: int) -> tf.Tensor:
    """One encoded image, string [] → uint8 [height, width, channels], in its own size."""
    head = image_header.first_bytes(data)

    def read(data: tf.Tensor, size: tf.Tensor, decode: Callable[[tf.Tensor], tf.Tensor]) -> tf.Tensor:
        with tf.control_dependencies([require_pixels(size, max_pixels)]):
            return decode(tf.identity(data))

    def jpeg(data: tf.Tensor) -> tf.Tensor:
        image = tf.io.decode_jpeg(data, channels=min(channels, 3), dct_method=DCT_METHOD)
        return _with_alpha(image) if channels == 4 else image

    def gif() -> tf.Tensor:
        frame, size = first_frame.of_gif(data)
        size = tf.maximum(size, image_header.gif_size(head))
        return _with_channels(read(frame, size, lambda gif: tf.io.decode_gif(gif)[0]), channels)

    def webp() -> tf.Tensor:
        frame = first_frame.of_webp(data)
        size = image_header.webp_size(image_header.first_bytes(frame))
        return _with_channels(read(frame, size, _decode_webp), channels)

    def bmp() -> tf.Tensor:
        return _with_channels(read(data, image_header.bmp_size(head), tf.io.decode_bmp), channels)

    readers = {
        image_header.JPEG: lambda: read(data, _jpeg_size(data), jpeg),
        image_header.PNG: lambda: read(
            data, image_header.png_size(head), lambda png: tf.io.decode_png(png, channels=channels)
        ),
        image_header.GIF: apart(gif),
        image_header.WEBP: apart(webp),
        image_header.BMP: apart(bmp),
        image_header.UNKNOWN: apart(lambda: _refused(refuse_format(head), channels)),
    }
    image = tf.switch_case(image_header.format_of(head), readers)
    return tf.ensure_shape(image, [None, None, channels])


def _jpeg_size(data: tf.Tensor) -> tf.Tensor:
    return tf.io.extract_jpeg_shape(data, tf.int64)[:2]


def _decode_webp(data: tf.Tensor) -> tf.Tensor:
    if not hasattr(tf.raw_ops, "DecodeWebP"):
        return _refused(refuse_webp(), channels=3)
    return tf.raw_ops.DecodeWebP(contents=data)[0]


def _refused(refusal: tf.Operation | None, channels: int) -> tf.Tensor:
    with tf.control_dependencies([refusal] if refusal is not None else []):
        return tf.zeros([1, 1, channels], tf.uint8)


def _decode_jpeg_crop(data: tf.Tensor, box: Box, shape: Shape, max_pixels: int) -> tf.Tensor:
    part = box(require_pixels(_jpeg_size(data), max_pixels))
    channels = min(shape[-1], 3)

    def decode(window: tf.Tensor, ratio: int) -> tf.Tensor:
        return tf.io.decode_and_crop_jpeg(data, window, channels=channels, ratio=ratio, dct_method=DCT_METHOD)

    def shrunk() -> tf.Tensor:
        largest = tf.reduce_sum(tf.cast(times >= SHRINKS, tf.int32))
        return tf.switch_case(
            largest - 1, [functools.partial(decode, part // ratio, ratio) for ratio in SHRINKS]
        )

    times = tf.reduce_min(part[2:] // shape[:2])  # that the part is larger than what is wanted
    image = tf.cond(times < SHRINKS[0], lambda: decode(part, 1), apart(shrunk))
    image = tf.ensure_shape(image, [None, None, channels])
    return _with_alpha(image) if shape[-1] == 4 else image


def _with_channels(image: tf.Tensor, channels: int) -> tf.Tensor:
    """[height, width, 1, 3 or 4] → [height, width, channels]; transparency is dropped, not applied."""
    has_colour = tf.shape(image)[2] >= 3
    colour = tf.cond(has_colour, lambda: image[..., :3], lambda: tf.repeat(image[..., :1], 3, axis=2))
    colour = tf.ensure_shape(colour, [None, None, 3])
    if channels == 1:
        return tf.cond(has_colour, lambda: tf.image.rgb_to_grayscale(colour), lambda: colour[..., :1])
    if channels == 3:
        return colour
    return tf.cond(tf.shape(image)[2] == 4, lambda: image, lambda: _with_alpha(colour))


def _with_alpha(image: tf.Tensor) -> tf.Tensor:
    return tf.concat([image, tf.fill(tf.shape(image[..., :1]), tf.constant(255, tf.uint8))], axis=2)


def _fit(image: tf.Tensor, shape: Shape) -> tf.Tensor:
    """Resizes to [*shape], unless it has this size already."""

    def resized() -> tf.Tensor:
        # Antialiased: without it, shrinking a photograph four times drops 15 of 16 pixels.
        pixels = tf.image.resize(image, shape[:2], antialias=True)
        return tf.cast(tf.clip_by_value(tf.round(pixels), 0, 255), tf.uint8)

    is_sized = tf.reduce_all(tf.shape(image)[:2] == shape[:2])
    return tf.ensure_shape(tf.cond(is_sized, lambda: image, apart(resized)), shape)


def _resize(image: tf.Tensor, shape: Shape) -> tf.Tensor:
    """Resizes to [*shape] by two or less, where antialiasing would cost more than it is worth."""
    # As float32 already: of uint8 this operation takes twice as long, cast included, for the same result.
    # And half a level more: casting cuts off, which would make every picture darker by as much.
    pixels = scaled(image, scale=1.0, offset=0.5)[None]
    pixels = tf.raw_ops.ResizeBilinear(images=pixels, size=shape[:2], half_pixel_centers=True)[0]
    return tf.ensure_shape(tf.cast(pixels, tf.uint8), shape)
