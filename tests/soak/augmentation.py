"""What becomes of training images beside torchvision, and the Pillow it uses, operation by operation.

  python -m tests.soak.augmentation [--peers=build/peers/bin/python]

Pixels of photographs and hostile pictures may differ by 1 level. What is drawn must be distributed alike: a
test with fixed seeds fails where its p-value is below 0.001. A minute on one core.
"""

import io
import logging
import math
import os
import pathlib
import subprocess
from collections.abc import Callable, Iterator, Mapping

import numpy as np
import PIL.Image
import scipy.stats
import sklearn.datasets
from absl import flags

from pipeline.base import tensorflow_start  # noqa: F401 - before TensorFlow

# isort: split
import tensorflow as tf

from pipeline.data.images import rand_augment, training_image
from pipeline.data.images.augmentation import Augmentation
from pipeline.data.images.crop import random_box
from pipeline.data.images.decoding import decode_crop, decode_whole
from pipeline.data.images.pixels import Draws
from pipeline.data.images.training_image import augment_image
from tests.shared.hostile_pictures import hostile_pictures
from tests.shared.pictures import encode
from tests.soak import augmentation_peer as cases
from tests.soak import harness
from tests.soak.augmentation_peer import Named
from tests.soak.harness import Row, Soak

Arrays = Mapping[str, np.ndarray]
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


LEAST_P = 0.001
MOST_LEVELS = 1
_TOLD_ONLY = "antialiased crop"  # what is left out where a crop shrinks by two or less


def compare_pixels(found: Arrays, wanted: Arrays) -> Iterator[str]:
    """Prints the largest difference of each operation; yields those that are too large."""
    worst: dict[str, tuple[int, str]] = {}
    for key, expected in wanted.items():
        if not key.startswith("drawn/"):
            operation, _, setting = key.partition("/")
            levels = int(np.abs(found[key].astype(int) - expected).max())
            worst[operation] = max(
                worst.get(operation, (-1, "")), (levels, setting), key=lambda pair: pair[0]
            )
    for operation, (levels, where) in worst.items():
        print(f"{operation:<28}{levels:>6} levels; the worst: {where}")
        if levels > MOST_LEVELS and operation != _TOLD_ONLY:
            yield f"{operation}: {levels} levels, of {where}"


def p_values(found: Arrays, wanted: Arrays) -> Iterator[tuple[str, str, float]]:
    """(what, test, p-value) of everything that is drawn."""
    two = "Kolmogorov-Smirnov, two samples"
    for size in cases.IMAGES:
        name = f"crop {size}"
        both = [(sample[name][:, :2], sample[name][:, 2:]) for sample in (found, wanted)]
        for what, of in (
            ("area", lambda corner, side: side.prod(axis=1)),
            ("aspect", lambda corner, side: side[:, 1] / side[:, 0]),
            ("top", lambda corner, side: corner[:, 0]),
            ("left", lambda corner, side: corner[:, 1]),
        ):
            yield f"{name}, {what}", two, scipy.stats.ks_2samp(*(of(*one) for one in both)).pvalue
    for column, what in enumerate(("degrees", "scale", "right", "down")):
        mine = np.round(found["move"][:, column]) if column >= 2 else found["move"][:, column]
        yield f"move, {what}", two, scipy.stats.ks_2samp(mine, wanted["move"][:, column]).pvalue
    for name in (*cases.JITTER, "share of cutmix", "share of mixup"):
        yield name, two, scipy.stats.ks_2samp(found[name], wanted[name]).pvalue
    which, direction = found["operation"].T
    pairs = np.bincount((2 * which + (direction > 0)).astype(int), minlength=2 * len(cases.RAND_AUGMENT))
    yield "RandAugment, operation, direction", "chi-square, uniform", scipy.stats.chisquare(pairs).pvalue
    flips = int(found["flip"].sum())
    yield "flip", "binomial, a half", scipy.stats.binomtest(flips, len(found["flip"])).pvalue


def compare_draws(found: Arrays, wanted: Arrays) -> Iterator[str]:
    """Prints a p-value for everything that is drawn; yields those that are too small."""
    for what, test, p in p_values(found, wanted):
        print(f"{what:<36}{p:>8.3f}  {test}")
        if p < LEAST_P:
            yield f"{what}: p {p:.5f}"


_SUBSAMPLINGS = (0, 2)  # of a JPEG's colour: none, and in both directions


def pictures() -> dict[str, np.ndarray]:
    """uint8 [height, width, 3], or the bytes of a JPEG, uint8 [n], by name."""
    photos = {
        name: np.asarray(PIL.Image.fromarray(pixels).resize((320, 213), PIL.Image.Resampling.LANCZOS))
        for name, pixels in photographs().items()
    }
    jpegs = {
        f"{name} {sampling}": np.frombuffer(encode(pixels, "JPEG", subsampling=sampling), np.uint8)
        for name, pixels in (photographs() | hostile_pictures(64, 52)).items()
        for sampling in _SUBSAMPLINGS
    }
    return hostile_pictures(60, 44) | photos | {f"jpeg, {name}": data for name, data in jpegs.items()}


def photographs() -> dict[str, np.ndarray]:
    """scikit-learn's two, uint8 [427, 640, 3]."""
    found = sklearn.datasets.load_sample_images()
    return dict(zip(("china", "flower"), found.images, strict=True))


def _by_torchvision(given: Arrays, folder: pathlib.Path) -> Arrays:
    np.savez(folder / "pictures.npz", **given)
    module = [
        flags.FLAGS.peers,
        "-m",
        "tests.soak.augmentation_peer",
        folder / "pictures.npz",
        folder / "result.npz",
    ]
    subprocess.run(module, check=True, env={**os.environ, "CUDA_VISIBLE_DEVICES": ""})
    return dict(np.load(folder / "result.npz"))


def _by_us(given: Arrays) -> Named:
    for name, picture in given.items():
        if picture.ndim == 1:
            found = resized_jpeg(picture.tobytes())
        else:
            found = (*changed(picture), *resized(picture))
        yield from ((f"{key}/{name}", np.asarray(pixels)) for key, pixels in found)


def faults(soak: Soak) -> Iterator[str]:
    # Every picture has a shape of its own, and is traced anew.
    logging.getLogger("tensorflow").setLevel(logging.ERROR)
    given = pictures()
    wanted = _by_torchvision(given, soak.folder)
    yield from compare_pixels(dict(_by_us(given)), wanted)
    theirs = {key.removeprefix("drawn/"): value for key, value in wanted.items() if key.startswith("drawn/")}
    yield from compare_draws(dict(drawn()), theirs)


ROWS = (
    Row(
        name="torchvision",
        sentence="Compares each operation on images with torchvision's, and what is drawn.",
        faults=faults,
        lacks=lambda soak: "" if pathlib.Path(flags.FLAGS.peers).exists() else "needs `make peers`",
    ),
)


if __name__ == "__main__":
    flags.DEFINE_string("peers", "build/peers/bin/python", "Python that has torchvision: `make peers`.")
    harness.run(lambda: ROWS)
