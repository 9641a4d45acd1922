"""The stages of a recipe one at a time: each on elements held in memory, as parallel as in production."""

import dataclasses
import time
from collections.abc import Callable, Iterator

import numpy as np
import tensorflow as tf

from pipeline.data import recipe as recipe_lib
from pipeline.data.recipe import Recipe

# What is held of the elements that a stage takes: enough to show their variety.
HELD_BYTES = 64 << 20  # 64 MiB
HELD_TENSORS = 512
HELD_ELEMENTS = 64


@dataclasses.dataclass(frozen=True, kw_only=True)
class Alone:
    """One stage: an endless dataset of what it gives."""

    name: str
    dataset: tf.data.Dataset
    examples: int  # that an element holds
    is_copied: bool = False  # each element goes to the device


def stages_alone(recipe: Recipe, *, patience_s: float) -> Iterator[tuple[Alone, float]]:
    """Stages in order, each with the bytes of an example as it leaves it: read, …, batch, …, copy.

    Args:
      patience_s: seconds to spend on gathering the elements that a stage is shown, beyond the first two.
    """
    walk = _Walk(patience_s)
    yield walk.stage("read", recipe.rows_read, lambda held: recipe.read())
    for stage in recipe.stages:
        yield walk.stage(
            stage.name, recipe.rows_read, lambda held, stage=stage: recipe_lib.apply(held, [stage])
        )
    if recipe.rows_read != recipe.batch:
        yield walk.stage("batch", recipe.batch, lambda held: recipe.batched(held, rows=recipe.rows_read))
    copied = Alone(name="copy", dataset=walk.held, examples=recipe.batch, is_copied=True)
    yield copied, walk.bytes_per_example


class _Walk:
    """Goes from stage to stage, and holds what the last one gave."""

    def __init__(self, patience_s: float) -> None:
        self._patience_s = patience_s
        self.held: tf.data.Dataset | None = None
        self.bytes_per_example = 0.0

    def stage(
        self, name: str, examples: int, build: Callable[[tf.data.Dataset | None], tf.data.Dataset]
    ) -> tuple[Alone, float]:
        dataset = build(self.held).with_options(recipe_lib.options())
        elements = hold(dataset, self._patience_s)
        self.held = tf.data.experimental.from_list(elements).repeat()
        self.bytes_per_example = size_of(elements) / len(elements) / examples
        return Alone(name=name, dataset=dataset, examples=examples), self.bytes_per_example


def hold(dataset: tf.data.Dataset, patience_s: float) -> list[tuple]:
    """The first elements: two, or more where they are few bytes, few tensors and soon there."""
    started = time.perf_counter()
    two = first(dataset, 2)
    took = max(time.perf_counter() - started, 1e-9)
    tensors = max(1, len(tf.nest.flatten(two)))
    more = min(patience_s / took, HELD_BYTES / max(1, size_of(two)), HELD_TENSORS / tensors)
    count = min(2 * int(more), HELD_ELEMENTS)
    return first(dataset, count) if count > 2 else two


def first(dataset: tf.data.Dataset, count: int) -> list[tuple]:
    """So many elements, drawn in C++; see speed.py for why the iterator must not be Python's."""

    @tf.function
    def draw() -> list[tuple]:
        iterator = iter(dataset)
        return [next(iterator) for _ in range(count)]

    return draw.get_concrete_function()()


def size_of(tensors: object) -> int:
    """Bytes of all tensors in a structure."""
    return sum(_bytes(tensor) for tensor in tf.nest.flatten(tensors))


def _bytes(tensor: tf.Tensor) -> int:
    if tensor.dtype == tf.string:
        return int(tf.reduce_sum(tf.strings.length(tensor)))
    return int(np.prod(tensor.shape)) * tensor.dtype.size
