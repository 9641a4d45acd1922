"""Reads that fail are tried again: nothing is lost or repeated, the order stays, and the file is named."""

import dataclasses
import functools
import pathlib
import re
import threading
from collections.abc import Callable, Iterator, Set

import pytest
import tensorflow as tf

from pipeline.base.errors import TryAgainError
from pipeline.data.dataset.manifest import Dataset
from pipeline.data.dataset.selection import Selection, select
from pipeline.data.integrity.damage import naming_damage
from pipeline.data.reading import fetch as fetch_lib
from pipeline.data.reading import retries
from tests.shared.matrix import quick_cases
from tests.unit.data.reading.id_stream import BATCH, ids, write

ROWS = 400
SLOW = fetch_lib.reads_for_latency(0.01)


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    return write(tmp_path_factory.mktemp("ids") / "1.0.0", range(ROWS))


@pytest.fixture(scope="module", autouse=True)
def small_groups() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("pipeline.data.input.training.GROUP_ROWS", 50)
        yield


@pytest.fixture(autouse=True)
def counts_of_its_own(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    monkeypatch.setattr(retries, "_COUNTS", request.node.nodeid)


@pytest.fixture(scope="module")
def selection(dataset) -> Selection:
    return select(dataset, "train")


@pytest.fixture(scope="module")
def undisturbed(selection) -> Callable[[str], list[int]]:
    return functools.cache(lambda way: epochs(selection, way))


@pytest.fixture
def storage(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param == "slow":
        monkeypatch.setattr(fetch_lib, "reads_in_flight", lambda shards: SLOW)
    return request.param


each_on_one_storage = pytest.mark.parametrize(
    ("way", "storage"),
    quick_cases([("single", "fast"), ("windows", "slow")], [("single", "fast")]),
    indirect=["storage"],
)


@pytest.fixture
def failing(monkeypatch: pytest.MonkeyPatch) -> Callable[[Set[int]], None]:
    """Lets reading the n-th records fail, counted from 1 over all tries."""
    read, lock, count = fetch_lib._read, threading.Lock(), [0]

    def set_up(fails: Set[int]) -> None:
        def disturbed(record: bytes) -> bytes:
            with lock:
                count[0] += 1
                number = count[0]
            if number in fails:
                raise OSError(5, "Input/output error")
            return record

        def reading(*place: tf.Tensor) -> tf.data.Dataset:
            return read(*place).map(
                lambda record: tf.ensure_shape(tf.numpy_function(disturbed, [record], tf.string), [])
            )

        monkeypatch.setattr(fetch_lib, "_read", reading)

    return set_up


def with_shard(selection: Selection, path: pathlib.Path) -> Selection:
    """The selection with its first shard at `path`."""
    shards = dataclasses.replace(selection.shards, paths=(str(path), *selection.shards.paths[1:]))
    return dataclasses.replace(selection, shards=shards)


def epochs(selection: Selection, way: str) -> list[int]:
    return ids(selection, way, steps=2 * ROWS // BATCH)


@pytest.mark.parametrize(
    ("way", "large"), quick_cases([("single", True), ("windows", False)], [("single", True)])
)
@pytest.mark.slow
def test_the_order_knows_nothing_of_the_latency(selection, undisturbed, monkeypatch, way: str, large: bool):
    as_it_is = undisturbed(way)
    assert sorted(as_it_is[:ROWS]) == list(range(ROWS))
    monkeypatch.setattr(fetch_lib, "LARGE_BYTES", 0 if large else 1 << 30)
    monkeypatch.setattr(fetch_lib, "reads_in_flight", lambda shards: SLOW)
    assert epochs(selection, way) == as_it_is
    monkeypatch.setattr(fetch_lib, "_has_offsets", lambda: False)
    assert epochs(selection, way) == as_it_is


@pytest.mark.parametrize(
    ("way", "large", "storage"),
    quick_cases(
        [
            *(("single", False, "fast"), ("single", True, "slow")),
            *(("windows", False, "slow"), ("windows", True, "fast")),
        ],
        [("single", True, "slow"), ("windows", False, "slow")],
    ),
    indirect=["storage"],
)
@pytest.mark.slow
def test_nothing_is_lost_where_reads_fail(
    selection, undisturbed, storage, failing, monkeypatch, capfd, way: str, large: bool
):
    as_it_is = undisturbed(way)
    assert "a read failed" not in capfd.readouterr().err
    monkeypatch.setattr(fetch_lib, "LARGE_BYTES", 0 if large else 1 << 30)
    failing({10, 150, 333})
    assert epochs(selection, way) == as_it_is
    told = capfd.readouterr().err
    assert re.search(
        r"warning    a read failed, and is tried again: .*/ids-train.tfrecord\S+ at byte \d+ \(1", told
    )


def test_of_a_few_records_the_one_that_failed_is_named(selection, failing, monkeypatch, capfd):
    monkeypatch.setattr(fetch_lib, "reads_in_flight", lambda shards: SLOW)
    fetch = fetch_lib.Fetch(selection.shards)
    pieces = fetch.reads_of(tf.constant([5, 390, 17, 200], tf.int64))
    as_it_is = fetch.few(pieces).numpy().tolist()
    failing({2})
    assert fetch.few(pieces).numpy().tolist() == as_it_is
    path, offset = pieces.paths[1].numpy().decode(), int(pieces.offsets[1])
    told = [line for line in capfd.readouterr().err.splitlines() if "a read failed" in line]
    assert told == [f"warning    a read failed, and is tried again: {path} at byte {offset} (1 so far)"]


def test_firsts_leave_out_what_fails(tmp_path: pathlib.Path):
    gone = tf.data.TFRecordDataset([str(tmp_path / "gone")])
    directory = tf.data.TFRecordDataset([str(tmp_path)])
    some, other = (tf.data.Dataset.from_tensors(text).repeat() for text in ("some", "other"))
    numbers, found = retries.firsts([gone, some, directory, other], "last")
    assert numbers.numpy().tolist() == [1, 3, 4]
    assert found.numpy().tolist() == [b"some", b"other", b"last"]
    assert retries.firsts([gone, directory], "last")[0].numpy().tolist() == [2]


@each_on_one_storage
def test_a_file_that_cannot_be_read_ends_the_run_by_name(
    selection, storage, tmp_path: pathlib.Path, way: str
):
    broken = tmp_path / "ids-train.tfrecord-broken"
    broken.mkdir()  # which opens, and does not read
    moved = with_shard(selection, broken)
    said = rf"dataset file {broken} at byte [\d,]+: received Is a directory, after 7 tries"
    with pytest.raises(TryAgainError, match=said), naming_damage(moved):
        epochs(moved, way)


@each_on_one_storage
def test_a_file_that_is_gone_is_not_opened_for_ever(selection, storage, tmp_path, way: str):
    with pytest.raises(tf.errors.NotFoundError):
        epochs(with_shard(selection, tmp_path / "gone"), way)
