"""Where the time of a run went, in a line and on the page."""

import json
import pathlib

import pytest

from pipeline.report import html
from pipeline.training.report.inputs import ReportInputs, read_inputs
from pipeline.training.report.run import time_line, time_section
from pipeline.training.state import goodput
from pipeline.training.state.goodput import Ledger

STALL = "one save held training up for 0.250 s at most"


@pytest.fixture
def inputs(tmp_path: pathlib.Path) -> ReportInputs:
    """Of a run of 10 s, a second of them in a save, for a quarter of which training waited."""
    (tmp_path / "run.json").write_text(json.dumps({}))
    now = [0.0]
    with Ledger(tmp_path / "ledger.jsonl", clock=lambda: now[0], now=lambda: now[0], beats=False) as ledger:
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
