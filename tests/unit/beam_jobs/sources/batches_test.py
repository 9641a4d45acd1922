"""A batch ends after so many rows, or where its rows are large."""

from beam_jobs.sources.byte_streams import in_batches

MIB = 1 << 20


def test_a_batch_ends_after_so_many_rows():
    assert list(in_batches("abcde", at_most=2, size=len)) == [["a", "b"], ["c", "d"], ["e"]]


def test_large_rows_end_a_batch_before():
    rows = [1 * MIB, 31 * MIB, 50 * MIB, 1, 2]
    assert list(in_batches(rows, at_most=4, size=int)) == [rows[:2], rows[2:3], rows[3:]]
