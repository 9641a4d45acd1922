"""Counts of values in bounded memory: what a proposal is made of stays exact."""

import pyarrow as pa

from beam_jobs.schema.profiles import ColumnProfile, ValueCounts


def counted(*batches: list, limit: int = 100, most_bytes: int = 1 << 20) -> ValueCounts:
    counts = ValueCounts()
    for batch in batches:
        counts.add(
            pa.array([None if value is None else str(value) for value in batch], pa.string()),
            limit=limit,
            most_bytes=most_bytes,
        )
    return counts


def profile(counts: ValueCounts) -> ColumnProfile:
    return ColumnProfile(name="c", counts=counts.counts, others=counts.others)


def test_few_values_are_all_counted():
    counts = counted([" a", "b", None], ["a "])
    assert (counts.counts, counts.others) == ({"a": 2, "b": 1}, 0)


def test_only_what_convert_strips_is_stripped():
    assert dict(counted([" a\t", "b\N{NO-BREAK SPACE}"]).counts) == {"a": 1, "b\N{NO-BREAK SPACE}": 1}


def test_beyond_the_limit_new_values_are_counted_together():
    counts = counted([f"v{i}" for i in range(100)], ["v7", "new", "newer"])
    assert (len(counts.counts), counts.counts["v7"], counts.others, counts.total) == (100, 2, 2, 103)
    assert profile(counts).rows == 103
    assert profile(counts).distinct == 102


def test_beyond_so_many_bytes_new_values_are_counted_together():
    counts = counted(*(["a" * 50, f"{number:050}"] for number in range(100)), most_bytes=1000)
    assert counts.counts["a" * 50] == 100
    assert len(counts.counts) < 30
    assert counts.total == 200


def test_a_late_fraction_marker_and_extreme_are_seen():
    later = [*range(1000, 3000), 2.5, 3.5, "?", "-7", "007"]
    seen = profile(counted(list(range(100)), later))
    assert {"2999", "2.5", "?", "-7", "007"} <= seen.counts.keys()
    assert len(seen.counts) < 110
    without_code = profile(counted(list(range(100)), later[:-1]))
    assert (without_code.markers, without_code.are_whole_numbers) == (("?",), False)
    assert (without_code.numbers[0], without_code.numbers[-1]) == (-7, 2999)


def test_missing_values_are_exact_in_a_column_of_many_values():
    rows = [[i if i % 4 else "NA" for i in range(start, start + 400)] for start in range(0, 4000, 400)]
    assert profile(counted(*rows)).missing_fraction == 0.25


def test_memory_is_bounded():
    counts = counted(*(range(start, start + 1000) for start in range(0, 100_000, 1000)))
    assert len(counts.counts) < 1300
    assert counts.total == 100_000
