"""Pixels: their scale (0 … 255, or -1 … 1), the refusal of images, and random numbers for changes."""

import dataclasses
import hashlib
import re

import tensorflow as tf

from pipeline.base.errors import InputError

# Scale and offset from 0 … 255 to -1 … 1, for every channel. The model applies them on the accelerator, or
# this code on the host.
RESCALING = (1 / 127.5, -1.0)
_IMAGE_DTYPES = ("uint8", "bfloat16", "float32")


def rescaling_left(image_dtype: str) -> tuple[float, float] | None:
    """(scale, offset) that a model still has to apply to inputs of this dtype; None if nothing is left to
    do.
    """
    return RESCALING if image_dtype == "uint8" else None


def normalize(image: tf.Tensor, image_dtype: str) -> tf.Tensor:
    """uint8 [..., height, width, channels] → `image_dtype`, which the model takes, of the same shape.

    Scalars cost less than a mean and a deviation for each channel, broadcast over a last axis of 3.
    """
    if image_dtype == "uint8":
        return image
    scale, offset = RESCALING
    return scaled(image, scale=scale, offset=offset, dtype=image_dtype)


def scaled(image: tf.Tensor, *, scale: float, offset: float, dtype: str = "float32") -> tf.Tensor:
    """uint8, any shape → image * scale + offset in `dtype`, in one pass, where a cast, a product and a sum
    would take three.
    """
    return tf.raw_ops.Dequantize(
        input=tf.bitcast(image, tf.quint8),
        min_range=offset,
        max_range=offset + 255 * scale,
        mode="MIN_COMBINED",
        dtype=dtype,
    )


def require_image_dtype(image_dtype: str) -> str:
    """Returns `image_dtype`; raises InputError unless models can take images of this dtype."""
    if image_dtype not in _IMAGE_DTYPES:
        raise InputError(
            "--config.image_dtype",
            received=repr(image_dtype),
            expected=f"one of {', '.join(_IMAGE_DTYPES)}",
            action="'uint8' feeds the accelerator the fewest bytes; it normalises by itself.",
        )
    return image_dtype


# --- Refuses images in the graph, and turns the refusal into a readable error in Python.

_LIMIT = "image of too many pixels (height, width)"
_FORMAT = "image that is neither a JPEG nor a PNG, first bytes"  # what TensorFlow Serving answers
_SUBTYPE = "image whose pixels would be read otherwise than they are seen"


def require_pixels(size: tf.Tensor, max_pixels: int) -> tf.Tensor:
    """Returns `size`, int64 [2] (height, width), if that is 1 to `max_pixels` pixels; fails otherwise."""
    pixels = tf.reduce_prod(size)
    # The data are tensors, not a formatted string: otherwise every image would pay for formatting that only a
    # refused one needs.
    data = [_LIMIT, size, "limit", max_pixels]
    checked = tf.raw_ops.Assert(condition=(pixels <= max_pixels) & (pixels > 0), data=data, summarize=2)
    with tf.control_dependencies([checked] if checked is not None else []):
        return tf.identity(size)


def refuse_format(head: tf.Tensor) -> tf.Operation | None:
    """Fails, and shows the first bytes, int32 [n], of a file in a format that cannot be read."""
    return tf.raw_ops.Assert(condition=False, data=[_FORMAT, head[:8]], summarize=8)


def refuse_subtype(is_other: tf.Tensor, kind: str) -> tf.Operation | None:
    """Fails if `is_other`, bool []: TensorFlow would decode the `kind` to other pixels than Pillow."""
    return tf.raw_ops.Assert(condition=~is_other, data=[_SUBTYPE, kind])


def size_refusal(message: str, *, where: str = "image") -> InputError | None:
    """The error for the image `where`, if TensorFlow's message is about an image that the graph refused."""
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
            expected="a JPEG or PNG file",
            action="Save the image as one; beam_jobs.convert and beam_jobs.predict take other formats.",
        )
    if found := re.search(re.escape(_SUBTYPE) + r"\] \[(\w+)\]", message):
        return InputError(
            where,
            received=f"a {found.group(1)} of a subtype that TensorFlow decodes to other pixels",
            expected="8 bits a sample, upright",
            action="Save it again as such a PNG or JPEG; beam_jobs.convert and beam_jobs.predict do so.",
        )
    return None


@dataclasses.dataclass(frozen=True, kw_only=True)
class Draws:
    """The random numbers of one example: a pure function of (seed, index, purpose).

    `index`, int64 [], is the example's position in the training stream. Stateful random operations in a
    parallel map would give other pixels in every run.
    """

    seed: int
    index: tf.Tensor

    def key(self, purpose: str) -> tf.Tensor:
        """The seed of a stateless random operation: int64 [2]."""
        digest = hashlib.blake2b(f"{self.seed}/{purpose}".encode(), digest_size=8).digest()
        return tf.stack([tf.constant(int.from_bytes(digest, "little", signed=True), tf.int64), self.index])

    def uniform(self, purpose: str, count: int) -> list[tf.Tensor]:
        """`count` numbers in [0, 1), each float32 []."""
        return tf.unstack(self.table(purpose, count))

    def table(self, purpose: str, *shape: int) -> tf.Tensor:
        """Numbers in [0, 1), float32 [*shape]."""
        # This is one operation; tf.random.stateless_uniform takes six, too many where examples are mapped one
        # by one.
        return tf.raw_ops.StatelessRandomUniform(shape=shape, seed=self.key(purpose))

    def symmetric(self, purpose: str, *limits: float) -> list[tf.Tensor]:
        """A number in [-limit, limit) for each limit, float32 []."""
        numbers = self.uniform(purpose, len(limits))
        return [limit * (2.0 * number - 1.0) for limit, number in zip(limits, numbers, strict=True)]
