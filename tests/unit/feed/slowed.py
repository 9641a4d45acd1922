"""Input pipelines that are slow in one known place."""

import dataclasses
import pathlib
from collections.abc import Callable

from pipeline.data.input.stages import Recipe, Stage
from pipeline.feed.certificate import copy_to
from pipeline.feed.measure import Consume
from tests.unit.feed import slow_reads, slow_stages
from tests.unit.feed.pipelines import Records, images, raw, table

TO_CPU = copy_to("CPU:0")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Slowed:
    recipe: Recipe
    limit: str  # the stage that was slowed
    like: str = "table"  # the undisturbed pipeline that it was made of
    copy: Consume = TO_CPU


def slowed(folder: pathlib.Path) -> dict[str, Callable[[], Slowed]]:
    """By name; each writes its data below `folder` when it is called."""
    return {
        "slow disk": lambda: _read_through(folder / "disk", slow_reads.throttled(bytes_per_s=3 << 20)),
        "far storage": lambda: _read_through(folder / "far", slow_reads.delayed(seconds=0.5)),
        "one-thread map": lambda: _raw_from(slow_reads.in_one_thread(folder / "map")),
        "records one by one": lambda: Slowed(recipe=table(folder / "single", shuffle="global"), limit="read"),
        "Python generator": lambda: _raw_from(slow_reads.python_generator()),
        "tiny shards": lambda: _raw_from(slow_reads.tiny_shards(folder / "shards")),
        "gzip": lambda: _raw_from(slow_reads.gzipped(folder / "gzip")),
        "hundreds of features": lambda: Slowed(
            recipe=slow_stages.many_features(folder / "features"), limit="parse"
        ),
        "large PNGs": lambda: Slowed(recipe=images(folder / "png", side=640), limit="decode", like="images"),
        "Python function": lambda: _images_with(
            folder / "python", "tokenize", slow_stages.in_python, at_once=1.0
        ),
        "remote lookup": lambda: _images_with(folder / "lookup", "lookup", slow_stages.looked_up),
        "rotation and zoom": lambda: _images_with(folder / "augment", "augment", slow_stages.moved),
        "string hashing": lambda: Slowed(recipe=slow_stages.hashed_text(folder / "text"), limit="preprocess"),
        # Not copied to the device: that would take as long as batching.
        "huge tensors": lambda: Slowed(
            recipe=slow_stages.huge_tensors(), limit="batch", copy=slow_stages.shared_memory
        ),
        "slow bus": lambda: Slowed(recipe=table(folder / "bus"), limit="copy", copy=slow_stages.slow_copy),
    }


def _read_through(folder: pathlib.Path, filter_: slow_reads.Passage) -> Slowed:
    recipe = table(folder)
    return Slowed(
        recipe=dataclasses.replace(recipe, read=lambda: filter_(recipe.read()), read_at_once=1.0),
        limit="read",
    )


def _raw_from(records: Records) -> Slowed:
    return Slowed(recipe=raw(records), limit="read", like="raw")


def _images_with(
    folder: pathlib.Path, name: str, apply: Callable[..., tuple], *, at_once: float | None = None
) -> Slowed:
    recipe = images(folder)
    stages = (recipe.stages[0], Stage(name=name, apply=apply, each=True, at_once=at_once), *recipe.stages[1:])
    return Slowed(recipe=dataclasses.replace(recipe, stages=stages), limit=name, like="images")
