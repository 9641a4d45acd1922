"""Rows by position, in NumPy, are those that TensorFlow reads there; Grain and torch take them so."""

import os
import pathlib
import pickle

import numpy as np
import pytest

from pipeline.base.errors import InputError
from pipeline.data.dataset import shards
from pipeline.data.dataset.manifest import Dataset
from pipeline.data.dataset.selection import Selection, select
from pipeline.data.input.batches import raw_batches
from pipeline.data.reading.plan import plan_reading
from pipeline.data.reading.sharding import Share
from pipeline.data.reading.source import RowSource, stored_rows, stream_rows
from pipeline.data.schema.feature_types import Categorical, Label, Numeric, Tensor
from pipeline.data.schema.schema import Schema
from tests.shared.matrix import quick_cases
from tests.shared.tiny_dataset import write_dataset

SCHEMA = Schema(
    name="some",
    features=(
        Numeric(name="x", missing="mark"),
        Categorical(name="colour", vocabulary=("red", "größe"), missing="mark"),
        Categorical(name="code", encoding="integer", size=70_000),
        Tensor(name="matrix", dimensions=(2, 2)),
        Label(name="y", classes=("no", "yes")),
    ),
)
ROWS, BATCH = 1_100, 48  # two blocks of 1,024 rows in each of the shards, or a little of one
LAYOUTS = ("rows", "blocks")


def row(number: int) -> dict[str, object]:
    colour = ("red", "größe", "")[number % 3]
    x = float("nan") if number % 7 == 0 else number / 8
    return {"x": x, "colour": colour, "code": number, "matrix": [float(number)] * 4, "y": number % 2}


def write(directory: pathlib.Path, layout: str) -> Dataset:
    rows = [row(number) for number in range(ROWS)]
    return write_dataset(directory, SCHEMA, {"train": rows}, layout=layout, shards=2)


@pytest.fixture(scope="module")
def selections(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Selection]:
    directory = tmp_path_factory.mktemp("rows")
    return {layout: select(write(directory / layout, layout), "train") for layout in LAYOUTS}


def assert_same(found: dict, expected: dict) -> None:
    assert found.keys() == expected.keys()
    for name, values in expected.items():
        assert (found[name].dtype, found[name].shape) == (values.dtype, values.shape), name
        np.testing.assert_array_equal(found[name], values, err_msg=name)


@pytest.mark.parametrize("layout", quick_cases(LAYOUTS, ["blocks"]))
def test_positions_have_the_rows_that_tensorflow_reads_there(selections, layout: str):
    selection, start = selections[layout], 20 * BATCH
    source = stream_rows(selection, seed=3, global_batch=BATCH, epochs=3)
    plan = plan_reading(selection, share=Share(global_batch=BATCH), seed=3, position=start)
    for number, batch in enumerate(raw_batches(plan).take(25)):  # past the end of an epoch
        first = start + number * BATCH
        expected = {name: values.numpy() for name, values in batch.items()}
        assert_same(source[first : first + BATCH], expected)
    assert_same(source.batched(BATCH)[number + 20], expected)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_one_row_and_several_are_the_same(selections, layout: str):
    source = stored_rows(selections[layout])
    assert (len(source), len(source.batched(100))) == (ROWS, 11)
    together, some = source[:ROWS], [0, 1_099, 550, 1, 2, 549]
    for position, alone in zip(some, source.__getitems__(some), strict=True):
        expected = {name: values[position] for name, values in together.items()}
        source[position - 1 if position else 0]  # so that the next one is read with those that follow
        for found in (alone, source[position], source[position - ROWS]):
            assert_same({name: np.asarray(value) for name, value in found.items()}, _arrays(expected))
    assert_same(pickle.loads(pickle.dumps(source))[some], source[np.array(some)])
    assert {name: len(values) for name, values in source[[]].items()} == dict.fromkeys(together, 0)
    with pytest.raises(IndexError, match="position 1,100 of 1,100 rows"):
        source[ROWS]


@pytest.mark.parametrize(
    ("index", "problem"),
    [
        ("code", r"a row has columns: source\[0\]\['code'\]"),
        (1.5, "'float' object cannot be interpreted as an integer"),
        ([0.0, 1.0], "positions are whole numbers, not float64"),
        ([True, False], "a mask of 2 for 1,100 rows"),
        ([0, ROWS], "positions 0 to 1,100 of 1,100 rows"),
        (np.array([2**64 - 1], np.uint64), "positions 18,446,744,073,709,551,615 to"),
        (np.zeros((2, 2), np.int64), "positions of 2 dimensions, where rows have one"),
        (["01"], "positions are whole numbers, not <U2"),
    ],
)
def test_what_is_no_position_is_refused(selections, index: object, problem: str):
    with pytest.raises((IndexError, TypeError), match=problem):
        stored_rows(selections["rows"])[index]


@pytest.mark.parametrize("layout", LAYOUTS)
def test_who_changes_a_row_changes_it_for_nobody_else(selections, layout: str):
    source = stored_rows(selections[layout])
    for _ in range(2):
        for position in range(4):  # from the second on they are kept
            matrix = source[position]["matrix"]
            assert matrix.tolist() == [[position] * 2] * 2
            matrix[:] = -1


def test_a_mask_and_epochs_choose_rows_as_in_numpy(selections):
    source = stored_rows(selections["rows"], epochs=2)
    codes = source[:]["code"]
    assert codes.tolist() == 2 * codes[:ROWS].tolist()
    np.testing.assert_array_equal(source[codes < 9]["code"], codes[codes < 9])


def _arrays(values: dict) -> dict:
    return {name: np.asarray(value) for name, value in values.items()}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_no_row_is_lost_or_repeated_on_another_number_of_hosts(selections, layout: str):
    """Four hosts read ten batches, two go on: together they have read an epoch."""
    source = stream_rows(selections[layout], seed=1, global_batch=100)
    read = [source.batched(100, hosts=4, host=host)[batch] for batch in range(10) for host in range(4)]
    read += [source.batched(100, hosts=2, host=host)[10] for host in range(2)]
    assert np.concatenate([batch["code"] for batch in read]).tolist() == source[:ROWS]["code"].tolist()
    assert sorted(source[:ROWS]["code"].tolist()) == list(range(ROWS))


@pytest.mark.parametrize(
    ("size", "hosts", "problem"),
    [
        (100, 3, "size 100 for 3 hosts"),
        (100, 0, "size 100 for 0 hosts"),
        (ROWS + 1, 1, "size 1,101 for 1,100 rows, so not a whole batch"),
    ],
)
def test_hosts_share_whole_batches_evenly(selections, size: int, hosts: int, problem: str):
    with pytest.raises(InputError, match=problem):
        stored_rows(selections["rows"]).batched(size, hosts=hosts)


@pytest.mark.parametrize("host", [-1, 2])
def test_hosts_are_numbered_from_0_on(selections, host: int):
    with pytest.raises(InputError, match=rf"host of a source's batches: received {host}; expected 0 to 1: "):
        stored_rows(selections["rows"]).batched(100, hosts=2, host=host)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_damaged_record_is_named_and_others_are_read(tmp_path, layout: str):
    dataset = write(tmp_path / layout, layout)
    source = stored_rows(select(dataset, "train"))
    path = pathlib.Path(dataset.shard_paths("train")[1])
    content = bytearray(path.read_bytes())
    content[len(content) - 9] ^= 1  # in the content of the last record
    path.write_bytes(content)
    what = "block 0 at byte 0" if layout == "blocks" else r"record \d+ at byte [\d,]+"
    with pytest.raises(InputError, match=rf"{path.name}: received {what}: the checksum of its"):
        source[:ROWS]
    assert [int(source[number]["code"]) for number in range(9)] == source[:9]["code"].tolist()


@pytest.mark.parametrize("size", [0, 9, 1 << 20])
def test_a_file_of_blocks_of_another_size_is_named(tmp_path, size: int):
    """It was cut, emptied or lengthened after the dataset was opened."""
    dataset = write(tmp_path / "blocks", "blocks")
    source = stored_rows(select(dataset, "train"))
    path = pathlib.Path(dataset.shard_paths("train")[0])
    before = path.stat().st_size
    os.truncate(path, size)
    with pytest.raises(
        InputError, match=rf"{path.name}: received {size:,} bytes; expected {before:,} bytes, as"
    ):
        source[0]


def test_a_file_that_no_cache_holds_stays_open_while_it_is_read(selections, monkeypatch):
    monkeypatch.setattr("pipeline.data.reading.source._FILES_KEPT", 0)  # as where two threads open one file
    assert stored_rows(selections["rows"])[:3]["code"].tolist() == [0, 1, 2]


def test_offsets_too_many_to_hold_are_looked_up(selections, monkeypatch):
    held = stored_rows(selections["rows"])
    monkeypatch.setattr(shards, "HELD_RECORDS", 10)
    looked_up = select(selections["rows"].dataset, "train")
    assert looked_up.shards.offsets is None
    assert_same(stored_rows(looked_up)[540:560], held[540:560])


# --- The libraries that read it, where they are installed: `make peers` has them.


def expected_codes(source: RowSource, first: int = 0) -> list[int]:
    return source[first:]["code"].tolist()


@pytest.mark.parametrize("layout", LAYOUTS)
def test_grain_reads_the_same_rows_and_goes_on(selections, layout: str):
    grain = pytest.importorskip("grain", reason="Grain is no requirement: requirements/peers.txt has it")
    source = stream_rows(selections[layout], seed=2, global_batch=BATCH, epochs=2)
    assert isinstance(source, grain.sources.RandomAccessDataSource)
    rows = iter(grain.MapDataset.source(source).to_iter_dataset())
    head = [int(next(rows)["code"]) for _ in range(700)]
    state = rows.get_state()
    again = iter(grain.MapDataset.source(source).to_iter_dataset())
    again.set_state(state)
    assert head + [int(each["code"]) for each in again] == expected_codes(source)
    batches = grain.MapDataset.source(source.batched(BATCH))[10:]  # from position 480 on
    found = np.concatenate([batch["code"] for batch in batches.to_iter_dataset()]).tolist()
    assert found == expected_codes(source, 10 * BATCH)[: len(found)]
    assert len(found) == (len(source) // BATCH - 10) * BATCH


@pytest.mark.parametrize("layout", LAYOUTS)
def test_torch_reads_the_same_rows_in_any_number_of_workers(selections, layout: str):
    data = pytest.importorskip(
        "torch.utils.data", reason="torch is no requirement: requirements/peers.txt has it"
    )
    source = stream_rows(selections[layout], seed=2, global_batch=BATCH, epochs=2)
    numbers = data.DataLoader(source, batch_size=BATCH, collate_fn=lambda rows: [r["code"] for r in rows])
    assert [int(code) for batch in numbers for code in batch] == expected_codes(source)
    rest = data.Subset(source.batched(BATCH), range(10, len(source) // BATCH))
    for workers in (0, 2):
        loader = data.DataLoader(rest, batch_size=None, num_workers=workers, collate_fn=lambda batch: batch)
        found = np.concatenate([batch["code"] for batch in loader]).tolist()
        assert found == expected_codes(source, 10 * BATCH)[: len(found)]
