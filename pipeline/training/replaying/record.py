"""Which record stands at a position of the training stream: its dataset, file, and place in the file."""

import dataclasses
from collections.abc import Mapping

import numpy as np

from pipeline.data.dataset.selection import Selection
from pipeline.data.reading.mixture import TrainingData, parts_of


@dataclasses.dataclass(frozen=True, kw_only=True)
class Record:
    """One example of a batch, by what never changes: where it is stored."""

    position: int  # in the training stream, from 0
    epoch: int  # from 0
    dataset: str  # directory
    split: str
    file: str  # relative to the dataset
    ordinal: int  # of the record in its file, from 0
    row: int | None  # in the record, from 0, where a record is a block of rows; else None
    part: int  # of the mixture, from 0; 0 where there is none
    number: int  # of the row over all shards of the part's selection


def records_of(data: TrainingData, positions: np.ndarray, numbers: np.ndarray) -> tuple[Record, ...]:
    """The records at `positions`, int64 [n], of which `stream.read_numbers` gave `numbers`, int64 [n, 2]."""
    selections, rows_in_epoch = parts_of(data), data.rows
    splits = [_split_by_file(selection) for selection in selections]
    return tuple(
        _record(selections[part], splits[part], position, part, number, rows_in_epoch)
        for position, (part, number) in zip(positions.tolist(), numbers.tolist(), strict=True)
    )


def _record(
    selection: Selection, splits: Mapping[str, str], position: int, part: int, number: int, in_epoch: int
) -> Record:
    shards = selection.shards
    shard, record = shards.shard_of_row(number), shards.record_of_row(number)
    file = shards.names[shard]
    return Record(
        position=position,
        epoch=position // in_epoch,
        dataset=str(selection.dataset.directory),
        split=splits[file],
        file=file,
        ordinal=record - int(shards.record_starts[shard]),
        row=number - shards.rows_of_record(record)[0] if shards.rows_in_record > 1 else None,
        part=part,
        number=number,
    )


def _split_by_file(selection: Selection) -> dict[str, str]:
    splits = selection.dataset.manifest.splits
    return {shard.path: split for split, shards in splits.items() for shard in shards}
