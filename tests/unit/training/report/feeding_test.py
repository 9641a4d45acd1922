"""The report says whether the accelerator was fed, and what to run where it was not."""

import json
import pathlib

import pytest

from pipeline.report import html
from pipeline.training.report.findings import findings_section
from pipeline.training.report.inputs import ReportInputs, read_inputs
from pipeline.training.report.run import (
    certificate_command,
    feeding_fact,
    feeding_figure,
    is_starved,
    mean_input_wait,
    time_line,
    time_section,
    waited_s,
    working_step_ms,
)
from pipeline.training.state import goodput
from pipeline.training.state.goodput import GoodputLog

SHORT = {"step": 10, "step_ms": 10.0, "input_wait": 0.0}
LONG = {"step": 20, "step_ms": 30.0, "input_wait": 0.4}  # three times as long as the other


def run_of(tmp_path: pathlib.Path, *history: dict) -> ReportInputs:
    (tmp_path / "history.jsonl").write_text("".join(json.dumps(line) + "\n" for line in history))
    run = {"config_file": "my configs/a.py", "dataset": "data/a"}
    (tmp_path / "run.json").write_text(json.dumps(run))
    return read_inputs(tmp_path)


def test_log_points_count_by_their_time():
    assert mean_input_wait((SHORT, LONG)) == pytest.approx(0.3)


@pytest.mark.parametrize(("wait", "starved"), [(0.0, False), (0.04, False), (0.06, True)])
def test_starved_beyond_a_twentieth_of_the_time(wait, starved):
    history = ({"step": 10_000, "step_ms": 100.0, "input_wait": wait},)
    assert is_starved(history) == starved
    assert feeding_fact(history).startswith("starved" if starved else "fed")


def test_a_wait_of_seconds_is_told_without_advice(tmp_path):
    inputs = run_of(tmp_path, SHORT, LONG)  # 0.12 s of 0.4 s
    assert not is_starved(inputs.history)
    assert feeding_fact(inputs.history) == "waited 30.0 % of the time, 0.1 s in all"
    assert findings_section(inputs) is None


def test_the_wait_is_the_sum_over_the_log_points():
    assert waited_s((SHORT, LONG)) == pytest.approx(10 * 0.030 * 0.4)


def test_the_time_of_a_step_is_without_its_wait():
    assert working_step_ms((LONG,)) == pytest.approx(18.0)


def test_a_starved_run_says_what_to_run_next(tmp_path):
    inputs = run_of(tmp_path, SHORT, LONG, {"step": 30_000, "step_ms": 30.0, "input_wait": 0.3})
    command = "python -m pipeline.feed_rate '--config=my configs/a.py' --dataset=data/a --step_ms=18"
    assert certificate_command(inputs) == command
    page = html.blocks(findings_section(inputs).parts)
    assert "Starved: the accelerator waited 30.0 % of the time." in page
    assert "--step_ms=18" in page


def test_the_figure_names_the_worst_log_point(tmp_path):
    assert "Most at step 20: 40.0 % of the time" in feeding_figure(run_of(tmp_path, SHORT, LONG)).drawing


def test_before_the_first_log_point_nothing_is_said(tmp_path):
    inputs = run_of(tmp_path)
    assert feeding_figure(inputs) is None
    assert feeding_fact(inputs.history) is None
    assert not is_starved(inputs.history)


# Where the time of a run went, in a line and on the page.

STALL = "one save held training up for 0.250 s at most"


@pytest.fixture
def inputs(tmp_path: pathlib.Path) -> ReportInputs:
    """Of a run of 10 s, a second of them in a save, for a quarter of which training waited."""
    (tmp_path / "run.json").write_text(json.dumps({}))
    now = [0.0]
    with GoodputLog(
        tmp_path / "ledger.jsonl", clock=lambda: now[0], now=lambda: now[0], beats=False
    ) as ledger:
        ledger.began_at(0)
        with ledger.during("training"):
            now[0] += 9.0
        ledger.trained(9, waited=0.0)
        with ledger.during("checkpoint"):
            now[0] += 1.0
            ledger.saved(0.25)
    return read_inputs(tmp_path)


def test_the_line_has_the_largest_part_first_and_the_longest_stall_last(inputs, tmp_path):
    line = time_line(goodput.read_goodput(tmp_path / "ledger.jsonl"))
    assert line == f"time       10 s in 1 process: productive 90.0 %, checkpoint 10.0 %; {STALL}"


def test_the_section_says_it_where_it_says_what_saving_took(inputs):
    section = html.blocks(time_section(inputs).parts)
    assert f'<td class="n">10.0 %</td><td>saving; {STALL}</td>' in section
