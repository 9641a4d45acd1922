"""Mutated images: what the conversion accepts, the graphs of training and of serving decode.

Both graphs are traced once, by the process that forks; batches of images run in forks, because a decoder that
aborts takes its process with it. A batch that fails is run again, an image at a time.
"""

import dataclasses
import pathlib
import random
from collections.abc import Callable, Iterator, Sequence

from beam_jobs.cells.image_check import BadImageError, check_image
from pipeline.data.schema.kinds import Image
from tests.fuzz import samples
from tests.fuzz.mutations import mutated
from tests.shared import forked

_IMAGE = Image(name="image")
_BATCH = 100
_SECONDS = 600


@dataclasses.dataclass(frozen=True, kw_only=True)
class Picture:
    """An image file; `name` tells how to make it again."""

    name: str
    data: bytes


def pictures(count: int, *, seed: int) -> Iterator[Picture]:
    """Formats in turns; every tenth is not mutated."""
    for number in range(count):
        ending = samples.PICTURES[number % len(samples.PICTURES)]
        name = f"picture-{seed}:{number}-{ending}"
        data = samples.picture(number % 20, ending)
        yield Picture(name=name, data=mutated(data, random.Random(name)) if number // 5 % 10 else data)


def accepted(picture: Picture) -> bool:
    """Whether the conversion takes it."""
    try:
        check_image(picture.data, _IMAGE)
    except BadImageError:
        return False
    return True


def refused_by_graphs(taken: Sequence[Picture], folder: pathlib.Path) -> list[dict]:
    """Those that training or serving cannot decode, with the error."""
    found = []
    for start in range(0, len(taken), _BATCH):
        batch = taken[start : start + _BATCH]
        if _decode(batch, folder):
            found += [failure for picture in batch if (failure := _failure(picture, folder))]
    return found


def _failure(picture: Picture, folder: pathlib.Path) -> dict | None:
    if not (error := _decode([picture], folder)):
        return None
    return {"case": picture.name, "step": "decode", "problem": "accepted, but does not decode", "line": error}


def _decode(batch: Sequence[Picture], folder: pathlib.Path) -> str:
    """What decoding all of them ended in; empty if nothing."""

    def body() -> None:
        for decode in _decoders():
            for picture in batch:
                decode(picture.data)

    ended = forked.call(body, folder, timeout=_SECONDS)
    return "" if not ended.code else f"exit code {ended.code}: {(ended.error_lines or [''])[-1][:300]}"


def _decoders() -> Sequence[Callable[[bytes], object]]:
    """As training cuts a part out of an image, and as serving resizes the whole of it."""
    import tensorflow as tf

    from pipeline.data.images.decoding import decode_crop, decode_images

    shape, limit = (14, 18, 3), _IMAGE.max_pixels

    @tf.function(input_signature=[tf.TensorSpec([], tf.string)])
    def trained(data: tf.Tensor) -> tf.Tensor:
        whole = lambda size: tf.cast(tf.concat([[0, 0], size], axis=0), tf.int32)  # noqa: E731 - one line
        return decode_crop(data, whole, shape, max_pixels=limit)

    @tf.function(input_signature=[tf.TensorSpec([], tf.string)])
    def served(data: tf.Tensor) -> tf.Tensor:
        return decode_images(data[None], shape, max_pixels=limit)

    return trained, served
