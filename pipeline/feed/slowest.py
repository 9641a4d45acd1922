"""Measures the slowest picture: a median does not show one in thousands that takes as long as many steps."""

import dataclasses
import time
from collections.abc import Sequence

import numpy as np
import tensorflow as tf

from pipeline.data.dataset.selection import Selection
from pipeline.data.dataset.tfrecord import CRC_BYTES, HEADER_BYTES
from pipeline.data.images.decoding import decode_image
from pipeline.data.input import stages
from pipeline.data.input.stages import Recipe
from pipeline.data.integrity.scan import stored_frame
from pipeline.data.reading.fetch import READY
from pipeline.data.schema.feature_types import Image

_TRIES = 3  # the quickest counts: another process may take the core in one


@dataclasses.dataclass(frozen=True, kw_only=True)
class Slowest:
    """The picture with the most stored bytes, which grow with its pixels and so with its time.

    Attributes:
      seconds: time to prepare it.
      one_in: examples of which one has at least half as many bytes.
      ready: examples that are finished or under way, at most, when it is begun; their steps hide its time.
    """

    place: str
    seconds: float
    one_in: int
    ready: float


def has_pictures(recipe: Recipe) -> bool:
    return any(stage.each for stage in recipe.stages)


def slowest_of(recipe: Recipe, selections: Sequence[Selection], *, cores: float) -> Slowest:
    """Prepares the picture with the most bytes by itself; the recipe is of examples that have pictures."""
    numbers, sizes = zip(*map(_record_sizes, selections), strict=True)
    part = max(range(len(sizes)), key=lambda at: sizes[at].max())
    selection, of_all = selections[part], np.concatenate(sizes)
    by_size = numbers[part][sizes[part].argsort(kind="stable")].tolist()
    typical, payload = (_payload(selection, by_size[at]) for at in (len(by_size) // 2, -1))
    shard, ordinal = selection.shards.place_of_record(by_size[-1])
    # The order is kept, so behind it wait what is ready, and the groups of other threads.
    waiting = recipe.rows_read if recipe.cuts_batches(recipe.rows_read) else recipe.batch
    return Slowest(
        place=f"{selection.shards.names[shard]} record {ordinal:,} ({_picture(payload, selection)})",
        seconds=_seconds_of(recipe, payload, typical=typical),
        one_in=max(1, len(of_all) // int((2 * of_all >= of_all.max()).sum())),
        ready=READY * waiting + cores * recipe.rows_read,
    )


def _payload(selection: Selection, number: int) -> bytes:
    shard = selection.shards.shard_of_record(number)
    return stored_frame(selection, shard, number)[0][HEADER_BYTES:-CRC_BYTES]


def _record_sizes(selection: Selection) -> tuple[np.ndarray, np.ndarray]:
    """The numbers over all shards and the bytes of the selected records, int64 [n] each."""
    shards, numbers, sizes = selection.shards, [], []
    for first, last in selection.record_ranges:
        while first < last:
            shard = shards.shard_of_record(first)
            end = min(last, int(shards.record_starts[shard + 1]))
            numbers.append(np.arange(first, end))
            sizes.append(shards.stored(shard, first, end).sizes)
            first = end
    return np.concatenate(numbers), np.concatenate(sizes)


def _picture(payload: bytes, selection: Selection) -> str:
    """`9,000 x 7,000 JPEG`, height first, as it is stored."""
    image = selection.dataset.schema.of_type(Image)[0]
    data = tf.io.parse_single_example(payload, {image.name: tf.io.FixedLenFeature([], tf.string)})[image.name]
    height, width, _ = decode_image(data, channels=image.channels, max_pixels=image.max_pixels).shape
    return f"{height:,} x {width:,} {'JPEG' if tf.io.is_jpeg(data) else 'PNG'}"


def _seconds_of(recipe: Recipe, payload: bytes, *, typical: bytes) -> float:
    """The time to prepare a record in the smallest group: two records where pictures are mixed, else one.

    Args:
      typical: another record, which is prepared first: the first call builds the graph.
    """
    rows = 2 if any(stage.name == "mix" for stage in recipe.stages) else 1
    prepare, positions = tf.function(stages.fused(recipe.stages), autograph=False), tf.zeros([rows], tf.int64)

    def seconds(record: bytes) -> float:
        started = time.perf_counter()
        prepare(positions, tf.fill([rows], record))
        return (time.perf_counter() - started) / rows

    seconds(typical)
    return min(seconds(payload) for _ in range(_TRIES))
