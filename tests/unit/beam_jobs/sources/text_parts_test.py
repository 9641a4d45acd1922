"""Texts in runs of limited size, of which every character comes once and in order."""

import pyarrow as pa
import pytest

from beam_jobs.sources.tokens import Part, text_runs

TEXTS = ["", "ab", None, "c", "a long text of words", "éééééééé", "d"]


@pytest.mark.parametrize("part_bytes", [4, 5, 7, 8, 100])
def test_every_text_comes_whole_and_in_order(part_bytes):
    found, text = [], ""
    for run in text_runs(pa.array(TEXTS), part_bytes=part_bytes):
        assert sum(len(part.text.encode()) for part in run) <= part_bytes
        for part in run:
            text += part.text
            if part.is_last:
                found.append(text)
                text = ""
    assert found == [text for text in TEXTS if text]


def test_a_long_text_is_cut_before_a_blank():
    assert list(text_runs(pa.array(["ab cd ef"]), part_bytes=4)) == [
        [Part("ab", False)],
        [Part(" cd", False)],
        [Part(" ef", True)],
    ]
