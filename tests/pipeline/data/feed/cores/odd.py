"""Pipelines that scale badly, or otherwise than the eight: of these only what is promised has to be kept."""

import pathlib
from collections.abc import Callable, Mapping

import numpy as np
import tensorflow as tf

from pipeline.data.input.stages import Recipe
from pipeline.data.reading.plan import Mixture, Part
from pipeline.data.reading.sharding import Share
from pipeline.data.schema.feature_types import Image, Label
from pipeline.data.schema.schema import Schema
from tests.pipeline.data.feed.cores.eight import recipe_of, table, written
from tests.pipeline.data.feed.slowed import slowed

SIDE, PHOTOGRAPHS, BATCH = 480, 64, 32
FOUR_HOSTS = Share(global_batch=1_024, replicas=4, shard_count=4)
TINY_BATCH = Share(global_batch=8)
_SLOWED = ("Python function", "Python generator", "one-thread map", "far storage")

_PHOTOGRAPHS = Schema(
    name="photographs",
    features=(Image(name="image", height=SIDE, width=SIDE), Label(name="y", classes=("a", "b"))),
)


def odd(folder: pathlib.Path, scratch: pathlib.Path) -> Mapping[str, Callable[[], Recipe]]:
    """By name; each writes its data when it is called: below `folder` what can be read again."""
    cases = slowed(scratch)
    return {
        "photographs": lambda: _of_photographs(folder),
        "mixed photographs": lambda: recipe_of(_mixture(folder), batch=BATCH),
        "one by one": lambda: recipe_of(table(folder / "rows"), shuffle="global"),
        "tiny batches": lambda: recipe_of(table(folder / "blocks", layout="blocks"), share=TINY_BATCH),
        "rows, 4 hosts": lambda: recipe_of(table(folder / "rows"), share=FOUR_HOSTS),
        "mapped, 4 hosts": lambda: recipe_of(table(folder / "blocks", layout="blocks"), share=FOUR_HOSTS),
        "one window": lambda: recipe_of(table(folder / "few", rows=3_000)),
        **{name: lambda name=name: cases[name]().recipe for name in _SLOWED},
    }


def _of_photographs(folder: pathlib.Path) -> Recipe:
    return recipe_of(written(folder / "photographs", _PHOTOGRAPHS, _photographs), batch=BATCH)


def _mixture(folder: pathlib.Path) -> Mixture:
    parts = ((folder / "photographs", 0.9), (folder / "more photographs", 0.1))
    return Mixture(
        parts=tuple(
            Part(selection=written(path, _PHOTOGRAPHS, _photographs), weight=weight) for path, weight in parts
        )
    )


def _photographs() -> list[dict]:
    """JPEG files of noise, of 200 KiB."""
    pixels = np.random.default_rng(0).integers(0, 256, (4, SIDE, SIDE, 3), np.uint8)
    encoded = [tf.io.encode_jpeg(image).numpy() for image in pixels]
    return [{"image": encoded[n % 4], "y": n % 2} for n in range(PHOTOGRAPHS)]
