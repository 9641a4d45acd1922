"""Canonical shards: batches are the same on any number of hosts, and each host reads its part alone."""

import functools
import itertools
import pathlib
from collections.abc import Iterator

import numpy as np
import pytest
import tensorflow as tf

from pipeline.data.dataset import shards
from pipeline.data.dataset.manifest import Dataset
from pipeline.data.dataset.selection import Selection, select
from pipeline.data.reading import fetch, stream, window_parts, windows
from pipeline.data.reading.canonical_shards import CanonicalShards, all_canonical_shards
from pipeline.data.reading.parsing import parse_rows
from pipeline.data.reading.plan import ReadPlan
from pipeline.data.reading.sharding import Share
from pipeline.data.reading.window_parts import cut_windows
from pipeline.data.reading.windows import Unit
from tests.shared.matrix import quick_cases
from tests.unit.data.reading.id_stream import SCHEMA, write

ROWS, BATCH = 5_003, 192
STEPS = 2 * ROWS // BATCH  # nearly two epochs, the second of which begins within a batch


@pytest.fixture(scope="module", autouse=True)
def small_parts() -> Iterator[None]:
    """So that there are enough parts for all canonical shards."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in (("PART_RECORDS", 4), ("WINDOW_ROWS", 400), ("WINDOW_PARTS", 2)):
            patch.setattr(window_parts, name, value)
        yield


def publish(directory: pathlib.Path, *, layout: str = "rows") -> Dataset:
    return write(directory, range(ROWS), layout=layout)


@pytest.fixture(scope="module")
def selection(tmp_path_factory: pytest.TempPathFactory) -> Selection:
    return select(publish(tmp_path_factory.mktemp("ids") / "1.0.0"), "train")


def plan_of(selection: Selection, *, hosts: int, host: int, step: int = 0) -> ReadPlan:
    share = Share(global_batch=BATCH, replicas=hosts, shard_count=hosts, shard_index=host)
    return ReadPlan(data=selection, ways=("windows",), seed=1, position=step * BATCH, share=share)


def numbers(selection: Selection, *, hosts: int, host: int, step: int = 0) -> np.ndarray:
    """Of the rows that a host reads in each step, int64 [STEPS - step, BATCH / hosts]."""
    plan = plan_of(selection, hosts=hosts, host=host, step=step)
    batches = stream.read_numbers(plan).rebatch(BATCH // hosts).take(STEPS - step)
    return np.stack([found[:, 1] for _, found in batches.as_numpy_iterator()])


@pytest.fixture(scope="module")
def whole(selection) -> np.ndarray:
    return numbers(selection, hosts=1, host=0)


def test_there_are_as_many_lanes_as_the_batch_and_the_data_allow(selection):
    count = functools.partial(all_canonical_shards, cut_windows(selection))
    assert [count(global_batch=size).count for size in (1, 7, 100, 192, 1024)] == [1, 1, 4, 64, 64]
    few = all_canonical_shards(cut_windows(select(selection.dataset, "train[:600]")), global_batch=64)
    assert few.count == 8  # of 150 parts


def test_every_epoch_holds_every_row_once(whole):
    assert sorted(whole.ravel()[:ROWS]) == list(range(ROWS))
    assert len(set(whole.ravel()[ROWS:])) == whole.size - ROWS


# 3 and 6 hosts cut canonical shards, 96 share them.
@pytest.mark.parametrize(
    ("hosts", "host", "step"),
    quick_cases(
        [
            (*hosts, step)
            for hosts in ((2, 1), (3, 1), (6, 4), (16, 15), (64, 0), (64, 37), (96, 50))
            for step in (0, 31)
        ],
        [(3, 1, 31), (96, 50, 31)],
    ),
)
def test_a_host_reads_its_run_of_the_same_batches(selection, whole, hosts: int, host: int, step: int):
    size = BATCH // hosts
    run = whole[step:, host * size : (host + 1) * size]
    np.testing.assert_array_equal(numbers(selection, hosts=hosts, host=host, step=step), run)


@pytest.mark.slow
def test_a_host_does_not_read_what_others_read(whole, tmp_path):
    """Damage in a row of another host's is not met."""
    dataset = publish(tmp_path / "1.0.0")
    selection = select(dataset, "train")
    shards = selection.shards
    own = set(whole[: ROWS // BATCH, BATCH // 2 :].ravel())
    near = set(range(ROWS)) - own
    row = next(row for row in range(100, ROWS) if row in near)
    path = pathlib.Path(shards.paths[shards.shard_of_row(row)])
    content = bytearray(path.read_bytes())
    content[int(shards.offsets[row]) + 20] ^= 1
    path.write_bytes(bytes(content))

    def epoch(host: int) -> list[tf.Tensor]:
        plan = plan_of(selection, hosts=2, host=host)
        return list(stream.read(plan).rebatch(BATCH // 2).take(ROWS // BATCH - 4))

    epoch(1)
    with pytest.raises(tf.errors.DataLossError):
        epoch(0)


@pytest.mark.parametrize(
    ("layout", "batch", "is_slow", "are_held"),
    quick_cases(
        [
            (*of, *how)
            for of in (("rows", 512), ("blocks", 4096))
            for how in ((False, True), (True, True), (False, False))
        ],
        [("rows", 512, True, True), ("blocks", 4096, False, False)],
    ),
)
@pytest.mark.slow
def test_lanes_that_have_no_rows_left_in_an_epoch_read_none(
    tmp_path, monkeypatch, layout: str, batch: int, is_slow: bool, are_held: bool
):
    """Groups of canonical shards that lie behind the end of the epoch in its last batch."""
    if not are_held:  # the offsets, in memory
        monkeypatch.setattr(shards, "HELD_RECORDS", 1)
    monkeypatch.setattr(window_parts, "WINDOW_ROWS", 8)
    monkeypatch.setattr(window_parts, "LEAST_PARTS", 1)
    if is_slow:
        monkeypatch.setattr(fetch, "reads_in_flight", lambda shards: fetch.reads_for_latency(0.01))
    selection = select(publish(tmp_path / "1.0.0", layout=layout), "train")
    plan = ReadPlan(data=selection, ways=("windows",), seed=1, share=Share(global_batch=batch))
    found = [
        number
        for _, some in stream.read(plan).rebatch(ROWS).take(2)
        for number in parse_rows(some, SCHEMA)[0]["id"].numpy().tolist()
    ]
    assert sorted(found[:ROWS]) == sorted(found[ROWS:]) == list(range(ROWS))


@pytest.mark.parametrize(("hosts", "services"), quick_cases(itertools.product((1, 3), (2, 3)), [(3, 2)]))
@pytest.mark.slow
def test_services_that_take_turns_read_every_batch_once(selection, whole, hosts: int, services: int):
    """Where batches are not cut: images that are mixed with their neighbours."""
    size = BATCH // hosts
    for service in range(services):
        plan = plan_of(selection, hosts=hosts, host=hosts - 1).of_service(service, count=services)
        read = stream.read_numbers(plan).rebatch(size).take(4)
        found = np.stack([numbers[:, 1] for _, numbers in read.as_numpy_iterator()])
        expected = whole[service::services, BATCH - size :][:4]
        np.testing.assert_array_equal(found, expected)


# Rows of shards that are not in step come out in the order of the stream, once each.
WOVEN_BATCH, WOVEN_STEPS = 24, 40
CHUNKS = tf.TensorSpec([None], tf.int32), tf.TensorSpec([None, 2], tf.int64)


def units_of(shards: CanonicalShards, *, first: int, seed: int, chunks: int):
    """Units of random sizes, in some chunks, some rows wanted by nobody. A row is its position."""
    rng = np.random.default_rng(seed)
    size = shards.size
    given = np.full(shards.here, first // WOVEN_BATCH * size)

    def place(shard: np.ndarray, number: np.ndarray) -> np.ndarray:
        return number // size * shards.here * size + shard * size + number % size

    while given.min() < WOVEN_STEPS * size:
        more = rng.integers(0, 3 * size, shards.here)
        base = int(given.min() // size * shards.here * size)
        places, rows = [], []
        for shard, count in enumerate(more):
            numbers = given[shard] + np.arange(count)
            there = place(np.full(count, shard), numbers)
            batch, rest = there // (shards.here * size), there % (shards.here * size)
            position = batch * WOVEN_BATCH + shards.first * size + rest
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


@pytest.mark.parametrize(
    ("first", "end", "start", "chunks"),
    quick_cases(
        [
            (*of, start, chunks)
            for of in ((0, 8), (2, 5), (7, 8))
            for start in (0, 48, 61)
            for chunks in (1, 3)
        ],
        [(0, 8, 61, 3), (2, 5, 48, 1), (7, 8, 0, 3)],
    ),
)
def test_rows_come_out_in_the_order_of_the_stream(first: int, end: int, start: int, chunks: int):
    shards = CanonicalShards(global_batch=WOVEN_BATCH, count=8, first=first, end=end)
    scalar, places, rows = tf.TensorSpec([], tf.int64), *CHUNKS
    units = tf.data.Dataset.from_generator(
        lambda: units_of(shards, first=start, seed=start + first, chunks=chunks),
        output_signature=(scalar, scalar, (places,) * chunks, (rows,) * chunks),
    ).map(lambda *unit: Unit(*unit))
    found = [*windows.interleave(units, shards, position=tf.constant(start, tf.int64)).as_numpy_iterator()]
    positions = np.concatenate([some for some, _ in found])
    rows = np.concatenate([some for _, some in found])
    here = [p for p in range(start, WOVEN_STEPS * WOVEN_BATCH) if first * 3 <= p % WOVEN_BATCH < end * 3]
    np.testing.assert_array_equal(positions[: len(here)], here)
    np.testing.assert_array_equal(rows, np.stack([positions, -positions], axis=1))
