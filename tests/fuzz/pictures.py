"""Mutated images: what the conversion accepts, the graphs of training and of serving decode.

They decode in forks, because a decoder that aborts takes its process with it; the next fork goes on behind.
"""

import dataclasses
import json
import pathlib
import random
from collections.abc import Callable, Iterator, Sequence

from beam_jobs.cells.images import BadImageError, normalized
from pipeline.data.schema.feature_types import Image
from tests.fuzz import samples
from tests.fuzz.mutations import mutated
from tests.shared import forked

_IMAGE = Image(name="image")
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


def accepted(picture: Picture) -> Picture | None:
    """What a record holds of it; None if the conversion refuses it."""
    try:
        return dataclasses.replace(picture, data=normalized(picture.data, _IMAGE))
    except BadImageError:
        return None


def refused_by_graphs(taken: Sequence[Picture], folder: pathlib.Path) -> list[dict]:
    """Those that training or serving cannot decode, with the error."""
    found, start = [], 0
    while start < len(taken):
        told, ended = _decode(taken[start:], folder)
        if not told:
            raise RuntimeError(f"nothing was decoded: {ended.stderr}")
        found += [_failure(taken[start + one["at"]], one["error"]) for one in told if one["error"]]
        start += 1 + told[-1]["at"]
        if ended.code:  # the last one took its process with it
            found.append(_failure(taken[start - 1], f"exit code {ended.code}"))
    return found


def _failure(picture: Picture, error: str) -> dict:
    return {"case": picture.name, "step": "decode", "problem": "accepted, but does not decode", "line": error}


def _decode(pictures: Sequence[Picture], folder: pathlib.Path) -> tuple[list[dict], forked.Ended]:
    """A fork's answer for each that it came to, `at` which number, with the error; and how the fork ended."""

    def body() -> None:
        decoders = _decoders()
        for number, picture in enumerate(pictures):
            print(json.dumps({"at": number, "error": ""}), flush=True)
            for decode in decoders:
                try:
                    decode(picture.data)
                except Exception as error:
                    print(json.dumps({"at": number, "error": str(error)[:300]}), flush=True)

    ended = forked.call(body, folder, timeout=_SECONDS)
    return [json.loads(line) for line in ended.stdout.splitlines()], ended


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
