"""The stages of a recipe one at a time: each on elements held in memory, as parallel as in production."""

import dataclasses
import time
from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from pipeline.data.input import stages
from pipeline.data.input.stages import Recipe
from pipeline.data.reading.dataset_options import dataset_options

# What is held of the elements that a stage takes: enough to show their variety.
_HELD_BYTES = 64 << 20  # 64 MiB
_HELD_TENSORS = 512
_HELD_ELEMENTS = 64
_TAKER = "the one that takes the batches"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Alone:
    """One stage: an endless dataset of what it gives."""

    name: str
    dataset: tf.data.Dataset
    examples: int  # in an element
    bytes_per_example: float  # as it leaves the stage
    at_once: float | None = None  # calls of it that run at once at most; None: as many as there are cores
    thread: str = ""  # stages of the same one run one after the other; empty: it shares none
    is_copied: bool = False  # each element goes to the device


class _Build(NamedTuple):
    """How the dataset of a stage is made of what the stage before gave; of None for the first one."""

    name: str
    examples: int
    dataset_of: Callable[[tf.data.Dataset | None], tf.data.Dataset]
    at_once: float | None
    thread: str = ""


def stages_alone(recipe: Recipe, *, patience_s: float) -> Iterator[Alone]:
    """The stages in order: read, …, batch, …, copy.

    Args:
      patience_s: seconds to spend on gathering the elements that a stage is shown, beyond the first two.
    """
    held, size = None, 0.0
    for build in _builds(recipe):
        dataset = build.dataset_of(held).with_options(dataset_options(recipe.operation_threads))
        elements = hold(dataset, patience_s)
        held = tf.data.experimental.from_list(elements).repeat()
        size = size_of(elements) / len(elements) / build.examples
        yield Alone(
            name=build.name,
            dataset=dataset,
            examples=build.examples,
            bytes_per_example=size,
            at_once=build.at_once,
            thread=build.thread,
        )
    yield Alone(
        name="copy",
        dataset=held,
        examples=recipe.batch,
        bytes_per_example=size,
        at_once=1.0,
        thread=_TAKER,
        is_copied=True,
    )


def _builds(recipe: Recipe) -> Iterator[_Build]:
    yield _Build("read", recipe.rows_read, lambda held: recipe.read(), recipe.read_at_once)
    for stage in recipe.stages:
        yield _Build(
            stage.name,
            recipe.rows_read,
            lambda held, stage=stage: stages.apply(held, [stage]),
            stage.at_once,
        )
    if recipe.rows_read != recipe.batch:
        yield _Build(
            "batch",
            recipe.batch,
            lambda held: recipe.batched(held, rows=recipe.rows_read),
            1.0,
            _TAKER if recipe.cuts_batches(recipe.rows_read) else "",
        )


def hold(dataset: tf.data.Dataset, patience_s: float) -> list[tuple]:
    """The first elements, of any shapes: two, or more where they are small and quickly there."""
    started = time.perf_counter()
    two = first(dataset, 2)
    took = max(time.perf_counter() - started, 1e-9)
    tensors = max(1, len(tf.nest.flatten(two)))
    more = min(patience_s / took, _HELD_BYTES / max(1, size_of(two)), _HELD_TENSORS / tensors)
    count = min(2 * int(more), _HELD_ELEMENTS)
    return first(dataset, count) if count > 2 else two


def first(dataset: tf.data.Dataset, count: int) -> list[tuple]:
    """The first `count` elements, drawn in C++; speed.py says why the iterator must not be Python's."""

    @tf.function(autograph=False)
    def draw() -> list[tuple]:
        iterator = iter(dataset)
        # `next` would take so many calls for a loop over the dataset, and refuse.
        return [iterator.get_next_as_optional().get_value() for _ in range(count)]

    return draw.get_concrete_function()()


def size_of(tensors: object) -> int:
    """Bytes of all tensors, of any shape and dtype, in a nested structure; a string counts its characters."""
    return sum(_bytes(tensor) for tensor in tf.nest.flatten(tensors))


def _bytes(tensor: tf.Tensor) -> int:
    if tensor.dtype == tf.string:
        return int(tf.reduce_sum(tf.strings.length(tensor)))
    return int(np.prod(tensor.shape)) * tensor.dtype.size
