"""The raw rows of a run's records, as the datasets that it trains on know them."""

from collections.abc import Sequence

from pipeline.data.dataset import blocks
from pipeline.data.dataset.origins.raw_rows import RawRow, raw_rows
from pipeline.data.reading.mixture import TrainingData, parts_of
from pipeline.training.replaying.record import Record


def origins_of(data: TrainingData, records: Sequence[Record]) -> list[RawRow | None]:
    """The raw row of each record; None where its dataset does not know. Never fails for want of one."""
    found: list[RawRow | None] = [None] * len(records)
    for part, selection in enumerate(parts_of(data)):
        mine = [index for index, record in enumerate(records) if record.part == part]
        in_block = blocks.geometry(selection.dataset.schema).rows if _has_blocks(records, mine) else 1
        places = [(records[index].file, _row(records[index], in_block)) for index in mine]
        for index, raw in zip(mine, raw_rows(selection.dataset, places), strict=True):
            found[index] = raw
    return found


def _has_blocks(records: Sequence[Record], some: Sequence[int]) -> bool:
    return any(records[index].row is not None for index in some)


def _row(record: Record, in_block: int) -> int:
    """Its number in the file."""
    return record.ordinal if record.row is None else record.ordinal * in_block + record.row
