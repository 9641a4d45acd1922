"""What a training image goes through, in this order: cut out, flipped, moved, recoloured, RandAugment.

Every step is a pure function of (seed, index); the index is the example's position in the training stream. A
run that resumes, on any number of hosts and threads, sees the same pixels.
"""

import tensorflow as tf

from pipeline.data.images import colour, geometry
from pipeline.data.images.augmentation import Augmentation
from pipeline.data.images.crop import random_box
from pipeline.data.images.decoding import Shape, decode_crop, decode_whole
from pipeline.data.images.keyed_random import Draws
from pipeline.data.images.rand_augment import rand_augment


def decode_training_image(
    data: tf.Tensor,
    index: tf.Tensor,
    *,
    shape: Shape,
    max_pixels: int,
    augmentation: Augmentation,
    seed: int,
) -> tf.Tensor:
    """One encoded image, of which the part that training shows is decoded and resized.

    Args:
      data: string [], a JPEG, PNG, GIF, WebP or BMP file.
      index: int64 [], the example's position in the training stream.
      shape: height, width and channels to return: `preprocess.inputs.image_shape`.
      max_pixels: `preprocess.image.max_pixels`.

    Returns:
      uint8 [*shape].

    Raises:
      tf.errors.InvalidArgumentError: the image is refused; see limits.py.
    """
    if not augmentation.crops:
        return decode_whole(data, shape, max_pixels=max_pixels)
    draws = Draws(seed=seed, index=index)
    box = random_box(draws, area=augmentation.crop_area, aspect=augmentation.crop_aspect)
    return decode_crop(data, box, shape, max_pixels=max_pixels)


def augment_image(image: tf.Tensor, index: tf.Tensor, *, augmentation: Augmentation, seed: int) -> tf.Tensor:
    """Changes a decoded image, uint8 [height, width, channels] → the same shape and dtype.

    Args:
      index: int64 [], as above.
    """
    draws = Draws(seed=seed, index=index)
    if augmentation.flip:
        image = geometry.flip(image, draws)
    moves = {name: getattr(augmentation, name) for name in ("shift", "rotate_degrees", "zoom")}
    if any(moves.values()):
        image = geometry.move(image, draws, **moves)
    changes = {name: getattr(augmentation, name) for name in ("brightness", "contrast", "saturation", "hue")}
    if any(changes.values()):
        image = colour.jitter(image, draws, **changes)
    if augmentation.rand_augment:
        image = rand_augment(
            image,
            draws,
            operations=augmentation.rand_augment,
            magnitude=augmentation.rand_augment_magnitude,
        )
    return image
