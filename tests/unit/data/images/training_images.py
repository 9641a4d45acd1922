"""Images as training sees them, without a dataset."""

import contextlib
from collections.abc import Iterator

import tensorflow as tf

from pipeline.data.images.augmentation import Augmentation
from pipeline.data.images.pixels import size_refusal
from pipeline.data.images.training_image import augment_image, decode_training_image


def training_image(
    data: tf.Tensor, index: tf.Tensor, *, shape: tuple[int, int, int], augmentation: Augmentation, seed: int
) -> tf.Tensor:
    """One file, string [], decoded and augmented: uint8 [*shape]."""
    image = decode_training_image(
        data, index, shape=shape, max_pixels=40_000, augmentation=augmentation, seed=seed
    )
    return augment_image(image, index, augmentation=augmentation, seed=seed)


def augment_images(images: tf.Tensor, *, augmentation: Augmentation, seed: int) -> tf.Tensor:
    """uint8 [batch, height, width, channels], the first ones of a stream."""
    return tf.map_fn(
        lambda pair: augment_image(*pair, augmentation=augmentation, seed=seed),
        (images, tf.range(tf.shape(images)[0], dtype=tf.int64)),
        fn_output_signature=tf.TensorSpec(images.shape[1:], tf.uint8),
    )


@contextlib.contextmanager
def naming_refused_images() -> Iterator[None]:
    """Turns the graph's refusal of an image into an InputError; lets other errors pass."""
    try:
        yield
    except tf.errors.InvalidArgumentError as error:
        found = size_refusal(error.message)
        if found is None:
            raise
        raise found from None
