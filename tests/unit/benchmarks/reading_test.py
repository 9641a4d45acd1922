"""The benchmark of reading beside its peers, its subjects and its figures."""

import dataclasses
import pathlib

import numpy as np
import pytest

from benchmarks.reading import cases, host_costs, machine, measure, results, run, spans, window_cost
from benchmarks.reading import data as data_lib
from benchmarks.reading.cases import Case
from benchmarks.reading.host_costs import Measured
from benchmarks.reading.shuffle_quality import PARTS, again, spread
from pipeline.base.errors import InputError
from pipeline.data.dataset import manifest
from pipeline.data.dataset.window import open_window

# The input benchmark on tiny data: what it counts, what it refuses, what it writes.

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


@pytest.mark.slow
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


@pytest.mark.slow
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


@pytest.mark.slow
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


# The verdict on many hosts: what each pays and reads beside one alone, by medians, and hosts all over.


def measured(cpu_us: float, read: float = 1.0) -> Measured:
    return Measured(cpu_us=cpu_us, bytes=read)


def test_the_median_of_the_rounds_decides():
    rounds = [(measured(1.0), measured(each, read)) for each, read in ((1.2, 1.1), (9.0, 1.0), (1.0, 5.0))]
    table, held = host_costs.verdict({host_costs.CASES[0]: rounds})
    assert held
    assert table.splitlines()[1].split() == ["windows", "of", "rows", "1.000", "1.200", "1.20", "1.10"]


def test_too_much_of_either_is_not_held():
    for each in (measured(1.31), measured(1.0, 1.21)):
        _, held = host_costs.verdict({case: [(measured(1.0), each)] for case in host_costs.CASES})
        assert not held


def test_the_first_and_the_last_host_are_played():
    assert host_costs.played(64) == [0, 21, 42, 63]
    assert host_costs.played(2) == [0, 1]


# The machine of a benchmark is told, and its cores are given back.


def test_caches_and_instructions_are_told():
    told = machine.described()
    assert "cores" in told and "GB" in told
    if pathlib.Path("/sys/devices/system/cpu/cpu0/cache/index2").exists():
        assert "L2 " in told


def test_cores_are_taken_only_meanwhile():
    before = _children()
    with machine.taken(2):
        assert len(_children() - before) == 2
    assert _children() == before


def _children() -> set[str]:
    lists = pathlib.Path("/proc/self/task").glob("*/children")
    return {pid for children in lists for pid in children.read_text().split()}


# Orders whose quality is known.

ROWS, BATCH = 1 << 17, 256


def permutation(seed: int) -> np.ndarray:
    return np.random.default_rng(seed).permutation(ROWS)


def test_a_random_order_is_as_by_chance():
    assert spread(permutation(0), batch=BATCH) == pytest.approx(1, abs=0.03)
    assert again(permutation(0), permutation(1), batch=BATCH) == pytest.approx(1, abs=0.03)


def test_the_stored_order_draws_each_batch_from_one_part():
    stored = np.arange(ROWS)
    # All of a batch in one of 64 parts: ((B - B/64)² + 63 (B/64)²) / (B/64) = 63 B.
    assert spread(stored, batch=BATCH) == pytest.approx(BATCH)
    assert again(stored, stored, batch=BATCH) == pytest.approx((ROWS - 1) / (BATCH - 1))


def test_batches_that_draw_evenly_are_more_even_than_chance():
    dealt = np.arange(ROWS).reshape(PARTS, -1).T.ravel()
    assert spread(dealt, batch=BATCH) == 0


def test_rows_that_only_change_places_in_their_batch_meet_again():
    draw = np.random.default_rng(2)
    inside = np.concatenate([first + draw.permutation(BATCH) for first in range(0, ROWS, BATCH)])
    assert again(np.arange(ROWS), inside, batch=BATCH) == pytest.approx((ROWS - 1) / (BATCH - 1))


# The benchmark of windows: both have the same rows, and a window that costs more than the limit fails.

STORED = window_cost.Case(layout="rows", order="stored")


@pytest.mark.slow
def test_the_spans_are_the_whole_cut_into_pieces(tmp_path):
    whole, glob = spans.written(tmp_path, rows=51, spans=2, layout="rows")
    window = open_window([glob])
    assert [member.rows("train") for member in window.members] == [25, 26]
    assert manifest.open_dataset(whole).rows("train") == 51


def test_medians_of_the_rounds_ratios_are_held_against_the_limit():
    rounds = [(1.0, 1.0), (1.0, 1.09), (2.0, 6.0)]  # the last one had a busy machine
    table, held = window_cost.verdict({STORED: rounds})
    assert held
    assert "rows, stored" in table
    assert "highest ratio 1.090, at most 1.1" in table
    assert not window_cost.verdict({STORED: rounds, window_cost.CASES[1]: [(1.0, 1.11)]})[1]
