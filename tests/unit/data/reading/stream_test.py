"""One suite for all ways of reading: every row once an epoch, the same from any position and on any hosts."""

import functools
import itertools
import pathlib
from collections.abc import Callable, Iterator

import numpy as np
import pytest

from pipeline.data.dataset import shards
from pipeline.data.dataset.manifest import Dataset
from pipeline.data.dataset.selection import Selection, select
from pipeline.data.reading import fetch, records, windows
from pipeline.data.reading.parsing import parse_rows
from pipeline.data.reading.plan import ReadPlan
from pipeline.data.reading.sharding import Share
from pipeline.data.reading.stream import WAYS
from tests.shared.matrix import quick_cases
from tests.unit.data.reading.id_stream import BATCH, SCHEMA, ids, numbers_of, write

ROWS = 2_500  # three blocks of 1,024 rows, the last one not full
ALL = [(name, layout) for name, way in WAYS.items() for layout in way.layouts]
of_every_way = pytest.mark.parametrize(("way", "layout"), ALL)
of_each_layout = pytest.mark.parametrize(
    ("way", "layout"), quick_cases(ALL, [("windows", "rows"), ("mapped", "blocks")])
)


def of(ways: list[tuple[str, str]], *, quick: str) -> pytest.MarkDecorator:
    """All these ways with their layout; tracing one takes seconds, and the quick way stands for all."""
    cases = quick_cases(ways, [each for each in ways if each[0] == quick])
    return pytest.mark.parametrize(("way", "layout"), cases)


def publish(directory: pathlib.Path, *, layout: str, shards: int) -> Dataset:
    """Ids in random order, as the converter's hash leaves them."""
    order = np.random.default_rng(0).permutation(ROWS).tolist()
    return write(directory, order, shards=shards, layout=layout)


@pytest.fixture(scope="module")
def datasets(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Dataset]:
    directory = tmp_path_factory.mktemp("ids")
    return {layout: publish(directory / layout, layout=layout, shards=2) for layout in ("rows", "blocks")}


@pytest.fixture(scope="module")
def in_five_shards(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Dataset]:
    directory = tmp_path_factory.mktemp("five")
    return {layout: publish(directory / layout, layout=layout, shards=5) for layout in ("rows", "blocks")}


@pytest.fixture(scope="module")
def selections(datasets) -> dict[str, Selection]:
    return {layout: select(dataset, "train") for layout, dataset in datasets.items()}


@pytest.fixture(scope="module", autouse=True)
def small_parts() -> Iterator[None]:
    """So that an epoch has many window parts, windows and groups, as that of a large dataset has."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in (("PART_RECORDS", 7), ("WINDOW_ROWS", 300), ("WINDOW_PARTS", 2)):
            patch.setattr(f"pipeline.data.reading.window_parts.{name}", value)
        patch.setattr("pipeline.data.input.training.GROUP_ROWS", 200)
        yield


@pytest.fixture(scope="module")
def undisturbed(selections, small_parts) -> Callable[[str, str], list[int]]:
    """The ids of three epochs, as one host reads them from the start."""
    return functools.cache(lambda way, layout: ids(selections[layout], way, steps=3 * ROWS // BATCH))


@pytest.fixture(scope="module")
def stored_ids(selections) -> Callable[[str], list[int]]:
    """The ids of a layout in stored order."""

    def read(layout: str) -> list[int]:
        rows = [rows for _, rows in windows.stored_rows(selections[layout])]
        return np.concatenate([parse_rows(each, SCHEMA)[0]["id"] for each in rows]).tolist()

    return functools.cache(read)


@of_each_layout
def test_every_epoch_holds_every_row_once_in_an_order_of_its_own(undisturbed, way: str, layout: str):
    stream = undisturbed(way, layout)
    epochs = [stream[start : start + ROWS] for start in range(0, 3 * ROWS, ROWS)]
    for epoch in epochs:
        assert sorted(epoch) == list(range(ROWS))
    assert all(a != b for a, b in itertools.combinations(epochs, 2))


@of(ALL, quick="mapped")
def test_parts_of_a_split_are_read_like_whole_ones(datasets, stored_ids, way: str, layout: str):
    selection = select(datasets[layout], "train[100:300]+train[1500:2300]")
    stream = ids(selection, way, steps=1_000 // BATCH)
    stored = stored_ids(layout)
    assert sorted(stream) == sorted([*stored[100:300], *stored[1500:2300]])


@pytest.mark.parametrize(
    ("way", "layout", "has_offsets"),  # whether TensorFlow reads TFRecords from an offset
    quick_cases(
        [("single", "rows", True), ("windows", "rows", False), ("windows", "blocks", True)],
        [("single", "rows", True)],
    ),
)
def test_offsets_are_looked_up_in_the_indexes_where_they_are_too_many_to_hold(
    datasets, undisturbed, monkeypatch: pytest.MonkeyPatch, way: str, layout: str, has_offsets: bool
):
    monkeypatch.setattr(shards, "HELD_RECORDS", 1)
    monkeypatch.setattr(fetch, "_has_offsets", lambda: has_offsets)
    selection = select(datasets[layout], "train")
    assert selection.shards.offsets is None
    assert ids(selection, way, steps=ROWS // BATCH) == undisturbed(way, layout)[:ROWS]


@of_each_layout
def test_from_any_position_the_rest_is_the_same(selections, undisturbed, capfd, way: str, layout: str):
    position = 2 * ROWS - 7
    rest = ids(selections[layout], way, position=position, steps=20)
    assert rest == undisturbed(way, layout)[position : position + 20 * BATCH]
    # Slices that were cut again filled the terminals of those who have a GPU.
    assert "SubBuffer" not in capfd.readouterr().err


@of_every_way
@pytest.mark.slow  # span_stream_test.py has a quick one
def test_a_ledger_over_resumes_and_changing_hosts(selections, undisturbed, way: str, layout: str):
    """Stopped and resumed at odd steps, by 2, 4 and 1 hosts; an epoch ends while four and one read."""
    stops = (0, 31, 127, 251)  # an epoch has 125 steps
    ledger = []
    for (start, stop), hosts in zip(itertools.pairwise(stops), (2, 4, 1), strict=True):
        ledger += ids(selections[layout], way, position=start * BATCH, steps=stop - start, hosts=hosts)
    assert ledger == undisturbed(way, layout)[: stops[-1] * BATCH]


@of_each_layout
@pytest.mark.parametrize(
    ("part", "position"),
    [
        pytest.param("train", 2_470, marks=pytest.mark.slow),  # whose rows end in a later epoch
        ("train[100:300]+train[1500:2300]", 1_234),
    ],
)
def test_numbers_tell_which_rows_are_read(
    datasets, stored_ids, way: str, layout: str, part: str, position: int
):
    whole = select(datasets[layout], part)
    damaged = whole.without([1])  # a record of the second hundred, or a block
    plan = ReadPlan(data=damaged, ways=(way,), seed=1, position=position, share=Share(global_batch=BATCH))
    positions, numbers = numbers_of(plan, rows=100)
    assert positions.tolist() == list(range(position, position + 100))
    assert not numbers[:, 0].any()
    stored = np.array(stored_ids(layout))
    assert stored[numbers[:, 1]].tolist() == ids(damaged, way, position=position, steps=5)


@of(ALL, quick="mapped")
def test_another_seed_gives_another_order(selections, undisturbed, way: str, layout: str):
    assert ids(selections[layout], way, steps=5, seed=2) != undisturbed(way, layout)[: 5 * BATCH]


@of_every_way
def test_neighbours_come_from_all_over_the_data(stored_ids, undisturbed, way: str, layout: str):
    if (way, layout) == ("windows", "blocks"):
        pytest.skip("a window of two of the three blocks; the next test holds what it promises")
    stream = np.array(undisturbed(way, layout)[:ROWS])
    stored_at = np.argsort(stored_ids(layout))[stream]
    distance = np.abs(np.diff(stored_at)).mean() / ROWS
    assert distance > 0.25  # of two random rows: 1/3


def test_neighbours_from_windows_of_blocks_come_from_all_blocks_of_the_window(stored_ids, undisturbed):
    stream = undisturbed("windows", "blocks")[: 5 * BATCH]
    block_of = np.argsort(stored_ids("blocks")) // 1024
    assert len(set(block_of[stream])) > 1


@of([each for each in ALL if each != ("windows", "blocks")], quick="windows")  # a block ends with its shard
def test_the_order_knows_nothing_of_the_shards(undisturbed, in_five_shards, way: str, layout: str):
    other = select(in_five_shards[layout], "train")
    assert len(other.shards.paths) == 5
    assert ids(other, way, position=2400, steps=20) == undisturbed(way, layout)[2400:2800]


def test_shards_too_large_to_copy_are_gathered_from_each_by_itself(datasets, undisturbed, monkeypatch):
    part = select(datasets["blocks"], "train")
    assert part.shards.bytes.sum() <= records.COPIED_BYTES
    monkeypatch.setattr(records, "COPIED_BYTES", 0)
    assert ids(part, "mapped", steps=ROWS // BATCH) == undisturbed("mapped", "blocks")[:ROWS]


def test_the_global_order_knows_nothing_of_the_layout(undisturbed):
    assert undisturbed("single", "rows") == undisturbed("mapped", "blocks")


@of([each for each in ALL if each[0] != "mapped"], quick="single")
@pytest.mark.parametrize(
    ("has_offsets", "large_bytes"),
    [
        (True, 0),
        *(pytest.param(False, size, marks=pytest.mark.slow) for size in (fetch.LARGE_BYTES, 0)),
    ],
)
def test_records_are_the_same_however_they_are_fetched(
    selections, undisturbed, monkeypatch, way: str, layout: str, has_offsets: bool, large_bytes: int
):
    monkeypatch.setattr(fetch, "_has_offsets", lambda: has_offsets)
    monkeypatch.setattr(fetch, "LARGE_BYTES", large_bytes)
    read = ids(selections[layout], way, position=100, steps=10)
    assert read == undisturbed(way, layout)[100 : 100 + 10 * BATCH]


@pytest.mark.parametrize("layout", ["rows", "blocks"])
def test_stored_order_holds_every_row_once(stored_ids, layout: str):
    assert sorted(stored_ids(layout)) == list(range(ROWS))
