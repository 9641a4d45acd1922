"""Pictures of every subtype: refused by the conversion, or seen by a model as Pillow reads them.

Damaged ones are refused, or decoded without an error by every way in which a model gets pictures.
"""

import collections
import dataclasses
import functools
import json
import random
from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np
import tensorflow as tf

from tests.conformance.pictures import readers
from tests.conformance.pictures.subtypes import subtypes
from tests.shared import forked
from tests.soak import generators
from tests.soak.harness import Row, Soak

LEVELS = 2  # that a pixel may differ from Pillow's
_BATCH = 32
_MODEL = (8, 12)  # height and width that damaged pictures are resized to
_SIZES = ((1, 1), (1, 9), (8, 12), (17, 33), (40, 56))


@dataclasses.dataclass(frozen=True, kw_only=True)
class Picture:
    """A file, and how many channels the schema asks for."""

    name: str
    channels: int
    data: bytes


@dataclasses.dataclass(frozen=True, kw_only=True)
class Outcome:
    """`refused`: the conversion's reason; `failures`: what is wrong, by the way of reading."""

    picture: Picture
    refused: str = ""
    failures: tuple[str, ...] = ()


def pictures(
    count: int,
    *,
    seed: int = 0,
    sizes: Sequence[tuple[int, int]] = _SIZES,
    channels: Sequence[int] = tuple(readers.MODES),
) -> Iterator[Picture]:
    """Random ones of every subtype in turn."""
    makers = list(subtypes().items())
    for number in range(count):
        rng = np.random.default_rng([seed, number])
        name, make = makers[number % len(makers)]
        data = make(rng, *sizes[rng.integers(len(sizes))])
        yield Picture(name=name, channels=int(rng.choice(channels)), data=data)


def damaged(
    count: int, *, seed: int = 0, channels: Sequence[int] = tuple(readers.MODES)
) -> Iterator[Picture]:
    """Pictures of every subtype in turn, each damaged in its own way."""
    for number, picture in enumerate(pictures(count, seed=seed, channels=channels)):
        data = generators.mutated(picture.data, random.Random(f"{seed} {number}"))
        yield dataclasses.replace(picture, data=data)


def compared(some: Sequence[Picture], ways: readers.Ways = readers.readers) -> list[Outcome]:
    """Refused, or within LEVELS of Pillow by every way of reading."""
    outcomes, taken = _refused(some)
    groups = collections.defaultdict(list)
    for original, picture in taken:
        pixels = readers.by_pillow(original.data, channels=original.channels)
        groups[pixels.shape].append((picture, pixels))
    for shape, group in sorted(groups.items()):
        some, pixels = zip(*group, strict=True)
        outcomes += _read(ways(*shape), some, lambda got, n, pixels=pixels: _difference(got, pixels[n]))
    return outcomes


def decoded(some: Sequence[Picture], ways: readers.Ways = readers.readers) -> list[Outcome]:
    """Refused, or decoded without an error by every way of reading."""
    outcomes, taken = _refused(some)
    for channels in readers.MODES:
        group = [picture for _, picture in taken if picture.channels == channels]
        if group:
            outcomes += _read(ways(*_MODEL, channels), group, lambda got, n: "")
    return outcomes


def _refused(some: Sequence[Picture]) -> tuple[list[Outcome], list[tuple[Picture, Picture]]]:
    """Those that the conversion leaves out; the others, each with what a record holds of it."""
    outcomes, taken = [], []
    for one in some:
        found = readers.stored(one.data, channels=one.channels)
        if isinstance(found, str):
            outcomes.append(Outcome(picture=one, refused=found))
        else:
            taken.append((one, dataclasses.replace(one, data=found)))
    return outcomes, taken


def _read(
    ways: Mapping[str, readers.Read], some: Sequence[Picture], judge: Callable[[np.ndarray, int], str]
) -> list[Outcome]:
    """`judge` says of the pixels of picture number n what is wrong with them."""
    failures: list[list[str]] = [[] for _ in some]
    for way, read in ways.items():
        for start in range(0, len(some), _BATCH):
            batch = [one.data for one in some[start : start + _BATCH]]
            for n, got in enumerate(_each(read, batch), start):
                wrong = got if isinstance(got, str) else judge(got, n)
                failures[n] += [f"{way}: {wrong}"] if wrong else []
    return [Outcome(picture=one, failures=tuple(found)) for one, found in zip(some, failures, strict=True)]


def _each(read: readers.Read, batch: Sequence[bytes]) -> list[np.ndarray | str]:
    """The pixels of each file, or the error; one by one only where the batch has an error."""
    try:
        return list(read(batch))
    except tf.errors.OpError as error:
        if len(batch) == 1:
            return [error.message.split("\n")[0]]
    return [got for data in batch for got in _each(read, [data])]


def _difference(got: np.ndarray, expected: np.ndarray) -> str:
    levels = int(np.abs(got.astype(int) - expected).max())
    return f"{levels} levels from Pillow" if levels > LEVELS else ""


def faults(soak: Soak, *, are_damaged: bool) -> Iterator[str]:
    """What failed of ten times as many pictures; a decoder that aborts takes a fork with it."""
    ended = forked.call(functools.partial(_told, soak, are_damaged), soak.folder, timeout=3_600)
    yield from ended.stdout.splitlines()
    if ended.code:
        yield f"exit code {ended.code}: {ended.stderr.strip()[-600:]}"


def _told(soak: Soak, are_damaged: bool) -> None:
    some = list((damaged if are_damaged else pictures)(10 * soak.count, seed=soak.seed))
    found = (decoded if are_damaged else compared)(some)
    for one in found:
        if one.failures:
            print(f"{one.picture.name}, {one.picture.channels} channels: {json.dumps(one.failures)}")


ROWS = (
    Row(
        name="pictures",
        sentence="Reads pictures of every subtype: refused, or within 2 levels of Pillow.",
        faults=functools.partial(faults, are_damaged=False),
    ),
    Row(
        name="pictures_damaged",
        sentence="Mutates pictures of every subtype: refused, or decoded.",
        faults=functools.partial(faults, are_damaged=True),
    ),
)
