"""Refuses images in the graph, and turns the refusal into a readable error in Python."""

import contextlib
import re
from collections.abc import Iterator

import tensorflow as tf

from pipeline.data.errors import InputError

_LIMIT = "image of too many pixels (height, width)"
_FORMAT = "image in an unknown format, first bytes"
_WEBP = "image in WebP"
_SUBTYPE = "image whose pixels would be read otherwise than they are seen"


def require_pixels(size: tf.Tensor, max_pixels: int) -> tf.Tensor:
    """`size`, int64 [2] (height, width), if it is 1 to `max_pixels` pixels; fails otherwise."""
    pixels = tf.reduce_prod(size)
    # Tensors, not a formatted string: every image would pay for the formatting that only a refused one needs.
    data = [_LIMIT, size, "limit", max_pixels]
    checked = tf.raw_ops.Assert(condition=(pixels <= max_pixels) & (pixels > 0), data=data, summarize=2)
    with tf.control_dependencies([checked] if checked is not None else []):
        return tf.identity(size)


def refuse_format(head: tf.Tensor) -> tf.Operation | None:
    """Fails, and shows the first bytes, int32 [n], of a file in a format that cannot be read."""
    return tf.raw_ops.Assert(condition=False, data=[_FORMAT, head[:8]], summarize=8)


def refuse_webp() -> tf.Operation | None:
    """Fails, because this TensorFlow has no decoder for it."""
    return tf.raw_ops.Assert(condition=False, data=[_WEBP, "TensorFlow", tf.version.VERSION])


def refuse_subtype(is_other: tf.Tensor, kind: str) -> tf.Operation | None:
    """Fails where `is_other`, bool [], an image in the format `kind` would be decoded to other pixels."""
    return tf.raw_ops.Assert(condition=~is_other, data=[_SUBTYPE, kind])


@contextlib.contextmanager
def naming_refused_images() -> Iterator[None]:
    """Turns the graph's refusal of an image into an InputError; lets other errors pass."""
    try:
        yield
    except tf.errors.InvalidArgumentError as error:
        found = refusal(error.message)
        if found is None:
            raise
        raise found from None


def refusal(message: str, *, where: str = "image") -> InputError | None:
    """What to tell of the image `where`, if TensorFlow's message is of one that the graph refused."""
    if found := re.search(re.escape(_LIMIT) + r"\] \[(\d+) (\d+)\] \[limit\] \[(\d+)\]", message):
        height, width, limit = map(int, found.groups())
        return InputError(
            where,
            received=f"{height:,} x {width:,} pixels (height x width)",
            expected=f"1 to {limit:,} pixels in all (the schema's max_pixels)",
            action='If the image is meant to be read, set "max_pixels" of the schema\'s image feature.',
        )
    if found := re.search(re.escape(_FORMAT) + r"\] \[([\d ]+)\]", message):
        return InputError(
            where,
            received=f"data that begins with {bytes(map(int, found.group(1).split()))!r}",
            expected="a JPEG, PNG, GIF, WebP or BMP file",
            action="Convert the image, or leave it out.",
        )
    if found := re.search(re.escape(_SUBTYPE) + r"\] \[(\w+)\]", message):
        return InputError(
            where,
            received=f"a {found.group(1)} of a subtype that TensorFlow decodes to other pixels",
            expected="8 bits a sample, one whole frame, the way up that it is meant to be seen",
            action="Save it anew as such a PNG or JPEG; beam_jobs.convert says what is wrong with it.",
        )
    if found := re.search(re.escape(_WEBP) + r"\] \[TensorFlow\] \[([^]]+)\]", message):
        return InputError(
            where,
            received=f"a WebP file, with TensorFlow {found.group(1)}",
            expected="a TensorFlow with tf.raw_ops.DecodeWebP, as 2.21 has it",
            action="Upgrade TensorFlow, or convert the image to PNG.",
        )
    return None
