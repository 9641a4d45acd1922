"""Scales pixels from 0 … 255 to -1 … 1: the model does it on the accelerator, or this code on the host."""

import tensorflow as tf

from pipeline.data.errors import InputError

RESCALING = (1 / 127.5, -1.0)  # scale and offset, for every channel
_IMAGE_DTYPES = ("uint8", "bfloat16", "float32")


def rescaling_left(image_dtype: str) -> tuple[float, float] | None:
    """(scale, offset) that a model fed this dtype still has to apply; None if nothing is left to do."""
    return RESCALING if image_dtype == "uint8" else None


def normalize(image: tf.Tensor, image_dtype: str) -> tf.Tensor:
    """uint8 [..., height, width, channels] → `image_dtype`, which the model is fed, of the same shape.

    Scalars cost less than a mean and a deviation for each channel, broadcast over a last axis of 3.
    """
    if image_dtype == "uint8":
        return image
    scale, offset = RESCALING
    return scaled(image, scale=scale, offset=offset, dtype=image_dtype)


def scaled(image: tf.Tensor, *, scale: float, offset: float, dtype: str = "float32") -> tf.Tensor:
    """uint8, any shape → image * scale + offset in `dtype`, in one pass: cast, product and sum take three."""
    return tf.raw_ops.Dequantize(
        input=tf.bitcast(image, tf.quint8),
        min_range=offset,
        max_range=offset + 255 * scale,
        mode="MIN_COMBINED",
        dtype=dtype,
    )


def require_image_dtype(image_dtype: str) -> str:
    """`image_dtype`; raises InputError unless models can be fed it."""
    if image_dtype not in _IMAGE_DTYPES:
        raise InputError(
            "--config.image_dtype",
            received=repr(image_dtype),
            expected=f"one of {', '.join(_IMAGE_DTYPES)}",
            action="'uint8' feeds the accelerator the fewest bytes; it normalises by itself.",
        )
    return image_dtype
