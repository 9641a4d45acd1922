"""The training stream: every row once an epoch, the same from any position, other in every epoch.

The order is the same for any number of hosts, threads and shards; each way of reading is held to that.
"""

import itertools
import pathlib

import numpy as np
import pytest
import tensorflow as tf

from pipeline.data import fetch, reader
from pipeline.data.errors import InputError
from pipeline.data.manifest import Dataset
from pipeline.data.parse import parse_rows
from pipeline.data.selection import Selection, select
from pipeline.data.training_recipe import training_recipe
from tests.data.id_stream import SCHEMA, ids_of
from tests.tiny_dataset import write_dataset

ROWS = 2_500  # three blocks of 1,024 rows, the last one not full
WAYS = (("rows", "windows"), ("rows", "global"), ("blocks", "windows"), ("blocks", "global"))
HOSTS = {1: ((1, 0),), 2: ((2, 0), (2, 1)), 4: tuple((4, pipeline) for pipeline in range(4))}


def publish(directory: pathlib.Path, *, layout: str, shards: int = 2) -> Dataset:
    """Ids in random order, as the converter's hash leaves them."""
    order = np.random.default_rng(0).permutation(ROWS).tolist()
    rows = [{"id": i, "y": i % 2} for i in order]
    return write_dataset(directory, SCHEMA, {"train": rows}, shards=shards, layout=layout)


@pytest.fixture(scope="module")
def datasets(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Dataset]:
    directory = tmp_path_factory.mktemp("ids")
    return {layout: publish(directory / layout, layout=layout) for layout in ("rows", "blocks")}


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that an epoch has many pieces and windows, as that of a large dataset has."""
    monkeypatch.setattr("pipeline.data.pieces.PIECE_RECORDS", 7)
    monkeypatch.setattr("pipeline.data.pieces.WINDOW_ROWS", 300)
    monkeypatch.setattr("pipeline.data.pieces.WINDOW_PIECES", 2)


def ids(
    selection: Selection, shuffle: str, *, position: int, steps: int, hosts: int = 1, seed: int = 1
) -> list[int]:
    """Ids of `steps` global batches of 20, each put together from what its hosts read."""
    streams = []
    for pipelines, pipeline in HOSTS[hosts]:
        recipe = training_recipe(
            selection,
            preprocess=None,
            global_batch=20,
            seed=seed,
            position=position,
            shuffle=shuffle,
            context=tf.distribute.InputContext(pipelines, pipeline, num_replicas_in_sync=4),
        )
        streams.append(ids_of(recipe, batches=steps * 4 // hosts))
    each = 5 * 4 // hosts  # of a global batch, what one host reads
    parts = [np.reshape(stream, [steps, each]) for stream in streams]
    return np.concatenate(parts, axis=1).ravel().tolist()


@pytest.mark.parametrize(("layout", "shuffle"), WAYS)
def test_every_epoch_holds_every_row_once_in_an_order_of_its_own(datasets, layout: str, shuffle: str):
    stream = ids(select(datasets[layout], "train"), shuffle, position=0, steps=3 * ROWS // 20)
    epochs = [stream[start : start + ROWS] for start in range(0, 3 * ROWS, ROWS)]
    for epoch in epochs:
        assert sorted(epoch) == list(range(ROWS))
    assert all(a != b for a, b in itertools.combinations(epochs, 2))


@pytest.mark.parametrize(("layout", "shuffle"), WAYS)
def test_a_ledger_over_resumes_and_changing_hosts(datasets, layout: str, shuffle: str):
    """Stopped and resumed at random points, past epoch ends, by 1, 2, 4 and 1 hosts."""
    selection = select(datasets[layout], "train")
    undisturbed = ids(selection, shuffle, position=0, steps=3 * ROWS // 20)
    stops = [0, *np.sort(np.random.default_rng(4).choice(np.arange(1, 375), 7, replace=False)), 375]
    ledger = []
    for (start, stop), hosts in zip(itertools.pairwise(stops), itertools.cycle((1, 2, 4, 1)), strict=False):
        steps = int(stop - start)
        ledger += ids(selection, shuffle, position=int(start) * 20, steps=steps, hosts=hosts)
    assert ledger == undisturbed


@pytest.mark.parametrize("layout", ["rows", "blocks"])
def test_the_global_order_knows_nothing_of_layout_and_shards(datasets, tmp_path, layout: str):
    selection = select(datasets["rows"], "train")
    other = select(publish(tmp_path / "other", layout=layout, shards=5), "train")
    assert len(other.shards.paths) == 5
    orders = [ids(each, "global", position=2400, steps=20) for each in (selection, other)]
    assert orders[0] == orders[1]


def test_windows_of_records_know_nothing_of_shards(datasets, tmp_path):
    other = publish(tmp_path / "other", layout="rows", shards=5)
    orders = [ids(select(d, "train"), "windows", position=2400, steps=20) for d in (datasets["rows"], other)]
    assert orders[0] == orders[1]


@pytest.mark.parametrize(("layout", "shuffle"), [way for way in WAYS if way != ("blocks", "windows")])
def test_neighbours_of_an_epoch_come_from_all_over_the_data(datasets, layout: str, shuffle: str):
    stream = np.array(ids(select(datasets[layout], "train"), shuffle, position=0, steps=ROWS // 20))
    stored = _stored(datasets[layout])
    place = np.argsort(stored)[stream]  # where each row of the epoch is stored
    distance = np.abs(np.diff(place)).mean() / ROWS
    assert distance > 0.25  # of two random places: 1/3


def test_neighbours_from_windows_of_blocks_come_from_all_blocks_of_the_window(datasets):
    stream = ids(select(datasets["blocks"], "train"), "windows", position=0, steps=5)
    block_of = np.argsort(_stored(datasets["blocks"])) // 1024
    assert len(set(block_of[stream])) > 1


@pytest.mark.parametrize("layout", ["rows", "blocks"])
def test_stored_order_holds_every_row_once(datasets, layout: str):
    assert sorted(_stored(datasets[layout])) == list(range(ROWS))


def _stored(dataset: Dataset) -> list[int]:
    rows = [rows for _, rows in reader.stored_rows(select(dataset, "train"))]
    return np.concatenate([parse_rows(each, SCHEMA)[0]["id"] for each in rows]).tolist()


def test_seeds_differ(datasets):
    selection = select(datasets["rows"], "train")
    assert ids(selection, "auto", position=0, steps=5) != ids(selection, "auto", position=0, steps=5, seed=2)


def test_an_unknown_way_is_refused(datasets):
    with pytest.raises(InputError, match="received some; expected 'auto', 'global' or 'windows'"):
        reader.way_of(select(datasets["rows"], "train"), "some")


@pytest.mark.parametrize(
    ("layout", "shuffle"), [("rows", "windows"), ("rows", "global"), ("blocks", "windows")]
)
@pytest.mark.parametrize("large", [False, True])
def test_records_by_offset_are_the_same_without_the_raw_operation(
    datasets, monkeypatch, layout: str, shuffle: str, large: bool
):
    selection = select(datasets[layout], "train")
    with_it = ids(selection, shuffle, position=100, steps=10)
    if large:
        monkeypatch.setattr(fetch, "LARGE_BYTES", 0)
        assert ids(selection, shuffle, position=100, steps=10) == with_it
    monkeypatch.setattr(fetch, "_has_offsets", lambda: False)
    assert ids(selection, shuffle, position=100, steps=10) == with_it


@pytest.mark.parametrize(("layout", "shuffle"), WAYS)
def test_reading_logs_no_errors_of_tensorflow(datasets, capfd, layout: str, shuffle: str):
    """Slices that were cut again filled the terminals of those who have a GPU."""
    ids(select(datasets[layout], "train"), shuffle, position=0, steps=ROWS // 20)
    assert "SubBuffer" not in capfd.readouterr().err
