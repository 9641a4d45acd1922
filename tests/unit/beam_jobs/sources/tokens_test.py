"""Texts become rows of tokens."""

import numpy as np
import pyarrow as pa
import pytest

from beam_jobs.sources.tokens import Part, one_a_row, packed, text_runs


def documents(*lists: list[int]) -> list[np.ndarray]:
    return [np.array(tokens, np.int32) for tokens in lists]


def test_packed_rows_are_full_and_number_their_documents():
    rows = packed(documents([5, 6, 1], [7, 1], [], [8, 9, 1, 4, 4]), 4)
    assert rows.tokens.tolist() == [[5, 6, 1, 7], [1, 8, 9, 1], [4, 4, 0, 0]]
    assert rows.segments.tolist() == [[1, 1, 1, 2], [1, 2, 2, 2], [1, 1, 0, 0]]
    assert rows.first.tolist() == [0, 1, 3]


def test_one_document_a_row_is_cut_or_padded():
    rows = one_a_row(documents([5, 6, 7], [8], []), 2)
    assert rows.tokens.tolist() == [[5, 6], [8, 0], [0, 0]]
    assert rows.segments.tolist() == [[1, 1], [1, 0], [0, 0]]


def test_no_documents_are_no_rows():
    assert packed([], 4).tokens.shape == one_a_row([], 4).tokens.shape == (0, 4)
    assert [part.tokens.shape for part in packed([], 4).parts(2)] == [(0, 4)]


def test_parts_are_the_same_rows():
    rows = packed(documents([5, 6, 1], [7, 1], [8, 9, 1, 4, 4]), 4)
    first, second = rows.parts(2)
    for name in ("tokens", "segments", "first"):
        assert (np.concatenate([getattr(first, name), getattr(second, name)]) == getattr(rows, name)).all()


# Texts in runs of limited size, of which every character comes once and in order.
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
