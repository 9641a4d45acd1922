"""A unit holds whole batches, or many; shards are read in groups of one size."""

import numpy as np
import pytest

from pipeline.data.reading.canonical_shards import (
    MOST_BYTES,
    WindowParts,
    all_canonical_shards,
    group_size,
    unit_size,
)


def parts(*, count: int, rows: int, row_bytes: int, in_windows: int) -> WindowParts:
    numbers = np.arange(count)
    return WindowParts(
        first_record=numbers,
        first_row=numbers * rows,
        records=np.ones_like(numbers),
        skipped_rows=np.zeros_like(numbers),
        rows=np.full(count, rows),
        size=rows,
        bytes=float(rows * row_bytes),
        in_windows=in_windows,
    )


BLOCKS = parts(count=4096, rows=1024, row_bytes=168, in_windows=24)


@pytest.mark.parametrize("batch", [64, 256, 16_384])
def test_windows_of_whole_batches_are_read_one_at_a_time(batch: int) -> None:
    shards = all_canonical_shards(BLOCKS, global_batch=batch)
    assert unit_size(BLOCKS, shards, is_of_blocks=True) == (1024, 1)
    assert shards.count == 64 and 1024 % shards.size == 0


def test_a_unit_holds_eight_batches_where_windows_do_not_end_with_them() -> None:
    shards = all_canonical_shards(BLOCKS, global_batch=10_000)  # 16 shards of 625
    rows, windows = unit_size(BLOCKS, shards, is_of_blocks=True)
    assert windows * rows >= 8 * shards.size > (windows - 1) * rows


def test_of_records_it_holds_two() -> None:
    records = parts(count=16_384, rows=256, row_bytes=300, in_windows=54)
    shards = all_canonical_shards(records, global_batch=10_000)
    rows, windows = unit_size(records, shards, is_of_blocks=False)
    assert windows * rows >= 2 * shards.size > (windows - 1) * rows


def test_and_no_more_of_them_than_the_open_windows_may_take() -> None:
    large = parts(count=4096, rows=1024, row_bytes=1024, in_windows=4)
    shards = all_canonical_shards(large, global_batch=10_000)
    rows, windows = unit_size(large, shards, is_of_blocks=True)
    assert rows * windows < 8 * shards.size
    assert windows * rows * 1024 * shards.here <= MOST_BYTES


def test_a_unit_holds_a_batch_at_least() -> None:
    shards = all_canonical_shards(BLOCKS, global_batch=1 << 20)
    rows, windows = unit_size(BLOCKS, shards, is_of_blocks=True)
    assert rows * windows >= shards.size


@pytest.mark.parametrize(
    ("shards", "of_each", "together"),
    [
        (64, 1, 32),  # 64 blocks, of which windows hold 24
        (16, 5, 8),  # 80 blocks
        (8, 1, 8),
        (1, 24, 1),
        (15, 4, 5),  # two groups would be of 8 and 7
        (17, 4, 9),  # no even ones, unless each shard were read alone
    ],
)
def test_groups_of_blocks_are_of_one_size_where_that_can_be(shards: int, of_each: int, together: int) -> None:
    assert group_size(shards, parts=of_each, in_windows=24, is_of_blocks=True) == together


def test_strings_are_read_all_at_once() -> None:
    assert group_size(64, parts=8, in_windows=4, is_of_blocks=False) == 64
