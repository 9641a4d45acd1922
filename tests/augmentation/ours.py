"""What the pipeline makes of the same pictures, and draws, by the same keys as torchvision_side.py."""

import io
import math
from collections.abc import Callable, Iterator

import numpy as np
import PIL.Image
import tensorflow as tf

from pipeline.data.images import rand_augment, training_image
from pipeline.data.images.augmentation import Augmentation
from pipeline.data.images.crop import random_box
from pipeline.data.images.decoding import decode_crop, decode_whole
from pipeline.data.images.pixels import Draws
from pipeline.data.images.training_image import augment_image
from tests.augmentation import cases
from tests.shared.pictures import encode

Named = Iterator[tuple[str, np.ndarray]]
MOST_PIXELS = 10_000_000


def changed(pixels: np.ndarray) -> Named:
    image = tf.constant(pixels)
    for name in cases.RAND_AUGMENT:
        for bin_ in cases.BINS:
            for sign in (-1, 1):
                amount = tf.constant(sign * bin_ / 30)
                yield f"RandAugment {name}/{sign * bin_}", getattr(rand_augment, name)(image, amount)
    for name, factors in cases.FACTORS.items():
        for factor in factors:
            yield f"{name}/{factor}", rand_augment.adjust(image, **{name: tf.constant(factor)})
    yield "flip/", rand_augment.flip(image, _Fixed([0.2]))
    for degrees, scale, right, down in cases.AFFINES:
        amounts = [math.radians(degrees), scale - 1.0, right / image.shape[1], down / image.shape[0]]
        moved = rand_augment.move(image, _Fixed(amounts), shift=1.0, rotate_degrees=180.0, zoom=0.9)
        yield f"move/{degrees} {scale} {right} {down}", moved


class _Fixed(Draws):
    """Gives these numbers in place of random ones."""

    def __init__(self, numbers: list[float]) -> None:
        super().__init__(seed=0, index=tf.constant(0, tf.int64))
        object.__setattr__(self, "_numbers", [tf.constant(number, tf.float32) for number in numbers])

    def uniform(self, purpose: str, count: int) -> list[tf.Tensor]:
        return self._numbers

    def symmetric(self, purpose: str, *limits: float) -> list[tf.Tensor]:
        return self._numbers


def resized(pixels: np.ndarray) -> Named:
    height, width = pixels.shape[:2]
    size, data = cases.size_of_crop(height), tf.constant(encode(pixels, "PNG"))
    yield "resize/", decode_whole(data, (*size, 3), max_pixels=MOST_PIXELS)
    for number, crop in enumerate(cases.CROPS):
        found = _cropped(data, cases.box(crop, height, width), size)
        yield f"crop/{number}", found
        yield f"antialiased crop/{number}", found


def resized_jpeg(data: bytes) -> Named:
    width, height = PIL.Image.open(io.BytesIO(data)).size
    size = cases.size_of_crop(height)
    for number, crop in enumerate(cases.CROPS):
        yield f"crop of a JPEG/{number}", _cropped(tf.constant(data), cases.box(crop, height, width), size)


def _cropped(data: tf.Tensor, part: tuple[int, ...], size: tuple[int, int]) -> tf.Tensor:
    return decode_crop(data, lambda _: tf.constant(part), (*size, 3), max_pixels=MOST_PIXELS)


def drawn() -> Named:
    for size in cases.IMAGES:
        yield (
            f"crop {size}",
            _many(
                lambda draws, size=size: random_box(draws, area=cases.AREA, aspect=cases.ASPECT)(
                    tf.constant(size, tf.int64)
                )
            ),
        )
    yield "move", np.stack(_moves(), axis=1)
    for name, limit in cases.JITTER.items():
        yield name, _many(lambda draws, name=name, limit=limit: _factor(draws, name, limit))
    yield "share of cutmix", _many(lambda draws: _mixed(draws, Augmentation(cutmix=1.0)))
    yield "share of mixup", _many(lambda draws: _mixed(draws, Augmentation(mixup=0.4)))
    yield (
        "operation",
        _many(lambda draws: tf.stack([tf.cast(n, tf.float32) for n in rand_augment.drawn(draws, 0)])),
    )
    two = tf.constant([[[0], [1]]], tf.uint8)
    flips = Augmentation(flip=True)
    yield "flip", _many(lambda draws: augment_image(two, draws.index, augmentation=flips, seed=0)[0, 0, 0])


def _factor(draws: Draws, name: str, limit: float) -> tf.Tensor:
    """As it reaches `adjust`, which is not called."""
    asked, adjust = {}, rand_augment.adjust
    rand_augment.adjust = lambda image, **factors: asked.update(factors)
    try:
        rand_augment.jitter(None, draws, **{each: limit if each == name else 0.0 for each in cases.JITTER})
    finally:
        rand_augment.adjust = adjust
    return asked[name]


def _moves() -> list[np.ndarray]:
    """Degrees, scale, pixels to the right and down."""
    asked, affine = [], rand_augment.affine
    rand_augment.affine = lambda image, matrix, *, shift: asked.append((matrix, shift))
    image = tf.zeros([*cases.MOVED_SIZE, 1], tf.uint8)

    def one(draws: Draws) -> tf.Tensor:
        rand_augment.move(image, draws, **cases.MOVE)
        ((xx, _), (yx, _)), (right, down) = asked.pop()
        return tf.stack([xx, yx, right, down])

    try:
        xx, yx, right, down = _many(one).T
    finally:
        rand_augment.affine = affine
    return [np.degrees(np.arctan2(yx, xx)), 1 / np.hypot(xx, yx), right, down]


def _mixed(draws: Draws, augmentation: Augmentation) -> tf.Tensor:
    images = tf.zeros([2, *cases.CUTMIX_SIZE, 1], tf.uint8)
    return training_image.mixed_pair(images, 2 * draws.index, augmentation=augmentation, seed=0)[1]


def _many(of: Callable[[Draws], tf.Tensor]) -> np.ndarray:
    """For the first positions of a stream."""
    one = tf.autograph.experimental.do_not_convert(lambda index: of(Draws(seed=0, index=index)))
    return next(iter(tf.data.Dataset.range(cases.DRAWS).map(one).batch(cases.DRAWS))).numpy()
