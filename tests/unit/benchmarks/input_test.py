"""The input benchmark on tiny data: what it counts, what it refuses, what it writes."""

import dataclasses
import pathlib

import numpy as np
import pytest

from benchmarks.reading import cases, measure, results, run
from benchmarks.reading import data as data_lib
from benchmarks.reading.cases import Case
from pipeline.base.errors import InputError

SIZES = data_lib.Sizes(rows=4096, images=8, documents=300, tokens_multiple=64)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    directory = tmp_path_factory.mktemp("input")
    data_lib.prepare("tabular", directory, SIZES)
    return directory


def case(name: str, workload: str = "tabular") -> Case:
    [found] = cases.chosen([workload], [name])
    return found


def epoch(one: Case, data: pathlib.Path) -> measure.Ledger:
    reader = measure.reader_of(one.reader)
    return measure.epoch(reader, one.workload, data / one.workload)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["ours_rows", "ours_blocks", "ours_mapped", "naive", "tfds"])
def test_an_epoch_holds_every_row_once(data, name):
    ledger = epoch(case(name), data)
    assert dataclasses.astuple(ledger) == (SIZES.rows, 0, 0, 0)


def test_an_epoch_that_repeats_a_batch_is_told_from_a_whole_one(data):
    reader = measure.reader_of("reading.tf_peers:naive_rows")

    def stuck(directory: pathlib.Path):
        batch = next(reader(directory))
        while True:
            yield batch

    ledger = measure.epoch(stuck, "tabular", data / "tabular")
    assert (ledger.lost, ledger.repeated, ledger.foreign) == (3072, 3072, 0)


def test_a_row_that_was_altered_is_foreign():
    ledger = measure.compare(np.array([1, 2, 3]), np.array([1, 2, 4]))
    assert (ledger.lost, ledger.repeated, ledger.foreign) == (1, 0, 1)


def test_a_run_tells_cpu_rate_start_and_memory_of_its_own_process(data):
    cost = run.cost(case("read_only"), data, python=run.python_of(case("read_only"), data), seconds=0.1)
    assert sorted(cost) == [
        "cpu_us_per_example",
        "examples_per_s",
        "first_batch_s",
        "form",
        "load",
        "peak_mb",
    ]
    assert 0 < cost["cpu_us_per_example"] < 1000


def test_a_reader_that_fails_fails_the_benchmark(data):
    broken = dataclasses.replace(case("read_only"), reader="reading.floor:no_such_reader")
    with pytest.raises(run.ReaderError, match="no_such_reader"):
        run.cost(broken, data, python=run.python_of(broken, data), seconds=0.1)


def test_a_peer_without_its_environment_is_refused(tmp_path):
    with pytest.raises(InputError, match="make peers"):
        run.python_of(case("torch_mapped"), tmp_path)


def test_an_unknown_name_is_refused():
    with pytest.raises(InputError, match="--names"):
        cases.chosen(["tabular"], ["pandas"])


def figures(name: str, cpu: float) -> dict:
    costs = {
        "cpu_us_per_example": cpu,
        "examples_per_s": 1.0,
        "first_batch_s": 1.0,
        "peak_mb": 1.0,
        "load": 1.0,
    }
    return {"workload": "tabular", "name": name, **costs}


def test_verdicts_tell_held_missed_and_not_measured():
    text = results.verdicts(
        [figures("naive", 90.0), figures("ours_blocks", 1.0), figures("batch_then_parse", 13.0)]
    )
    assert "| naive / ours_blocks ≥ 100× | 90.00× | **missed** |" in text
    assert "| batch_then_parse / ours_blocks ≥ 12× | 13.00× | held |" in text
    assert "| tfds / ours_blocks ≥ 100× | – | not measured |" in text


def test_a_table_shows_losses_as_plainly_as_wins():
    lines = results.table([figures("ours_blocks", 2.0), figures("torch_mapped", 1.0)]).splitlines()
    assert lines[2].startswith("| torch_mapped | 1.000 | 0.50 |")
    assert lines[3].startswith("| ours_blocks | 2.000 | 1.00 |")
