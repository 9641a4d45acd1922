"""What a training image goes through, in this order: cut out, flipped, moved, recoloured, RandAugment.

Every step is a pure function of (seed, index), index being the example's place in the training stream: a run
that resumes, on any number of hosts and threads, sees the same pixels.
"""

import dataclasses

import tensorflow as tf

from pipeline.data import colour, geometry
from pipeline.data.crop import random_box
from pipeline.data.draws import Draws
from pipeline.data.errors import InputError
from pipeline.data.images import Shape, decode_crop, decode_whole
from pipeline.data.rand_augment import LARGEST_MAGNITUDE, rand_augment

_LIMITS = {
    "shift": 1.0,
    "rotate_degrees": 180.0,
    "zoom": 0.9,
    "brightness": 1.0,
    "contrast": 1.0,
    "saturation": 1.0,
    "hue": 0.5,
    "rand_augment": 10,
    "rand_augment_magnitude": LARGEST_MAGNITUDE,
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Augmentation:
    """How far an image may be changed; as it is by default: not at all. Steps are taken in this order."""

    crop_area: tuple[float, float] = (1.0, 1.0)  # smallest and largest part shown, of the area; (1, 1): whole
    crop_aspect: tuple[float, float] = (3 / 4, 4 / 3)  # its least and greatest width / height
    flip: bool = False  # left to right, half of the time
    shift: float = 0.0  # largest shift, as a fraction of the side
    rotate_degrees: float = 0.0  # largest turn either way
    zoom: float = 0.0  # largest change of scale: 0.1 means 0.9 to 1.1
    brightness: float = 0.0  # largest change: 0.4 means a factor of 0.6 to 1.4
    contrast: float = 0.0  # the same
    saturation: float = 0.0  # the same
    hue: float = 0.0  # largest turn of the colour circle either way; 0.5: half of it
    rand_augment: int = 0  # operations of RandAugment, one after another
    rand_augment_magnitude: float = 9.0  # their strength, up to 10

    def __post_init__(self) -> None:
        for name, limit in _LIMITS.items():
            _require(0 <= getattr(self, name) <= limit, name, getattr(self, name), f"0 to {limit:g}")
        least, most = self.crop_area
        _require(0 < least <= most <= 1, "crop_area", self.crop_area, "two rising fractions, each to 1")
        least, most = self.crop_aspect
        _require(0 < least <= most, "crop_aspect", self.crop_aspect, "two rising numbers above 0")

    @property
    def crops(self) -> bool:
        return tuple(self.crop_area) != (1.0, 1.0)


def decode_training_image(
    data: tf.Tensor,
    index: tf.Tensor,
    *,
    shape: Shape,
    max_pixels: int,
    augmentation: Augmentation,
    seed: int,
) -> tf.Tensor:
    """One encoded image as training sees it, before it is changed: what part to show, decoded and resized.

    Args:
      data: string [], a JPEG, PNG, GIF, WebP or BMP file.
      index: int64 [], the example's place in the training stream.
      shape: height, width and channels to return: `preprocess.inputs.image_shape`.
      max_pixels: `preprocess.image.max_pixels`.

    Returns:
      uint8 [*shape].

    Raises:
      tf.errors.InvalidArgumentError: see `decode_image`.
    """
    if not augmentation.crops:
        return decode_whole(data, shape, max_pixels=max_pixels)
    draws = Draws(seed=seed, index=index)
    box = random_box(draws, area=augmentation.crop_area, aspect=augmentation.crop_aspect)
    return decode_crop(data, box, shape, max_pixels=max_pixels)


def augment_image(image: tf.Tensor, index: tf.Tensor, *, augmentation: Augmentation, seed: int) -> tf.Tensor:
    """All that follows: uint8 [height, width, channels] → the same shape."""
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


def _require(ok: bool, name: str, received: object, expected: str) -> None:
    if not ok:
        raise InputError(
            f"augmentation '{name}'",
            received=received,
            expected=expected,
            action=f"Correct --config.augmentation.{name}.",
        )
