"""Rows that are read together: so many, or fewer where they are large: a worker holds them at once."""

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

BATCH_BYTES = 32 << 20  # 32 MiB; in memory a row takes several times what it takes in its file

Row = TypeVar("Row")


def in_batches(rows: Iterable[Row], *, at_most: int, size: Callable[[Row], int]) -> Iterator[list[Row]]:
    """Lists of `at_most` rows, or of the first that have 32 MiB together; `size` gives the bytes of a row."""
    batch: list[Row] = []
    held = 0
    for row in rows:
        batch.append(row)
        held += size(row)
        if len(batch) == at_most or held >= BATCH_BYTES:
            yield batch
            batch, held = [], 0
    if batch:
        yield batch
