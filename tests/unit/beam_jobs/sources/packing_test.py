"""Documents → rows of one length, by example."""

import numpy as np

from beam_jobs.sources.tokens import ByteTokenizer, one_a_row, packed


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


def test_bytes_come_back_from_their_tokens():
    [tokens] = ByteTokenizer().encode(["Zürich\n"])
    assert bytes((tokens - 3).tolist()).decode() == "Zürich\n"
