"""Rows of shards that are not in step come out in the order of the stream, once each."""

import numpy as np
import pytest
import tensorflow as tf

from pipeline.data.reading import windows
from pipeline.data.reading.canonical_shards import CanonicalShards
from pipeline.data.reading.windows import Unit

BATCH, STEPS = 24, 40
CHUNKS = tf.TensorSpec([None], tf.int32), tf.TensorSpec([None, 2], tf.int64)


def units_of(shards: CanonicalShards, *, first: int, seed: int, chunks: int):
    """Units of random sizes, in some chunks, some rows wanted by nobody. A row is its position."""
    rng = np.random.default_rng(seed)
    size = shards.size
    given = np.full(shards.here, first // BATCH * size)

    def place(shard: np.ndarray, number: np.ndarray) -> np.ndarray:
        return number // size * shards.here * size + shard * size + number % size

    while given.min() < STEPS * size:
        more = rng.integers(0, 3 * size, shards.here)
        base = int(given.min() // size * shards.here * size)
        places, rows = [], []
        for shard, count in enumerate(more):
            numbers = given[shard] + np.arange(count)
            there = place(np.full(count, shard), numbers)
            batch, rest = there // (shards.here * size), there % (shards.here * size)
            position = batch * BATCH + shards.first * size + rest
            places += [*(there - base), windows.NOWHERE]
            rows += [*zip(position, -position, strict=True), (-1, -1)]
        given = given + more
        mixed = rng.permutation(len(places))
        parts = np.array_split(mixed, chunks)
        end = int(place(np.arange(shards.here), given).min())
        yield (
            np.int64(base),
            np.int64(end),
            tuple(np.array(places, np.int32)[part] for part in parts),
            tuple(np.array(rows, np.int64).reshape(-1, 2)[part] for part in parts),
        )


@pytest.mark.parametrize(("first", "end"), [(0, 8), (2, 5), (7, 8)])
@pytest.mark.parametrize("start", [0, 48, 61])
@pytest.mark.parametrize("chunks", [1, 3])
def test_rows_come_out_in_the_order_of_the_stream(first: int, end: int, start: int, chunks: int):
    shards = CanonicalShards(global_batch=BATCH, count=8, first=first, end=end)
    scalar, places, rows = tf.TensorSpec([], tf.int64), *CHUNKS
    units = tf.data.Dataset.from_generator(
        lambda: units_of(shards, first=start, seed=start + first, chunks=chunks),
        output_signature=(scalar, scalar, (places,) * chunks, (rows,) * chunks),
    ).map(lambda *unit: Unit(*unit))
    found = [*windows.interleave(units, shards, position=tf.constant(start, tf.int64)).as_numpy_iterator()]
    positions = np.concatenate([some for some, _ in found])
    rows = np.concatenate([some for _, some in found])
    here = [p for p in range(start, STEPS * BATCH) if first * 3 <= p % BATCH < end * 3]
    np.testing.assert_array_equal(positions[: len(here)], here)
    np.testing.assert_array_equal(rows, np.stack([positions, -positions], axis=1))
