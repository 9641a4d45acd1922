"""The benchmark of windows: both have the same rows, and a window that costs more than the limit fails."""

import pytest

from benchmarks.reading import spans
from benchmarks.reading.window_cost import CASES, Case, verdict
from pipeline.data.dataset import manifest
from pipeline.data.dataset.window import open_window

STORED = Case(layout="rows", order="stored")


@pytest.mark.slow
def test_the_spans_are_the_whole_cut_into_pieces(tmp_path):
    whole, glob = spans.written(tmp_path, rows=51, spans=2, layout="rows")
    window = open_window([glob])
    assert [member.rows("train") for member in window.members] == [25, 26]
    assert manifest.open_dataset(whole).rows("train") == 51


def test_medians_of_the_rounds_ratios_are_held_against_the_limit():
    rounds = [(1.0, 1.0), (1.0, 1.09), (2.0, 6.0)]  # the last one had a busy machine
    table, held = verdict({STORED: rounds})
    assert held
    assert "rows, stored" in table
    assert "highest ratio 1.090, at most 1.1" in table
    assert not verdict({STORED: rounds, CASES[1]: [(1.0, 1.11)]})[1]
