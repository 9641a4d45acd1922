"""The statistics of a published dataset, or of several that are read as one."""

from collections.abc import Callable, Sequence
from typing import TypeVar

from pipeline.base.errors import DamagedError, InputError
from pipeline.data.dataset import statistics
from pipeline.data.dataset.manifest import STATISTICS_FILE_NAME, TRAIN, Dataset, in_order, published_bytes
from pipeline.data.dataset.statistics import SplitStatistics, Statistics
from pipeline.data.schema.schema import Schema
from pipeline.data.statistics import encoding
from pipeline.data.statistics.encoding import FILE_NAME, Splits

_Read = TypeVar("_Read")


def load(dataset: Dataset) -> Statistics:
    """Statistics of every split that has rows; several datasets count as one dataset with all their rows.

    Raises:
      InputError: a file is not the one that was published, or none was.
    """
    return statistics.named(content(dataset), dataset.directory / STATISTICS_FILE_NAME)


def content(dataset: Dataset) -> bytes:
    """The content of `statistics.pb`; several datasets give the same as one dataset of all their rows."""
    if not dataset.members:
        return published_bytes(dataset.directory, dataset.manifest, STATISTICS_FILE_NAME)
    splits = [_gathered(member) for member in dataset.members]
    names = in_order({name for each in splits for name in each})
    return statistics.dumps({name: _of_split(dataset, splits, name) for name in names})


def _of_split(dataset: Dataset, splits: Sequence[Splits], name: str) -> SplitStatistics:
    parts = [
        _checked(member, encoding.loads_accumulator, each[name], member.schema)
        for member, each in zip(dataset.members, splits, strict=True)
        if name in each
    ]
    return encoding.results(encoding.merged(parts, dataset.schema), dataset.schema)


def _gathered(member: Dataset) -> Splits:
    published = published_bytes(member.directory, member.manifest, FILE_NAME)
    return _checked(member, encoding.loads, published, member.schema)


def _checked(
    member: Dataset, read: Callable[[bytes, Schema], _Read], content: bytes, schema: Schema
) -> _Read:
    try:
        return read(content, schema)
    except DamagedError as error:
        raise InputError(
            f"dataset file {member.directory / FILE_NAME}",
            received=str(error),
            expected="what was gathered of each split, as this version of beam_jobs.convert writes it",
            action="Convert its raw data again, or read that dataset alone.",
        ) from None


def of_training(dataset: Dataset) -> SplitStatistics:
    """The statistics of the train split, from which preprocessing is made, whatever split is trained on.

    Raises:
      InputError: the dataset has no such split, or the file is not the one that was published.
    """
    found = load(dataset)
    if TRAIN not in found:
        raise InputError(
            f"dataset {dataset}",
            received=f"the splits {', '.join(in_order(found))}",
            expected=f"one named '{TRAIN}': its statistics are what numbers are standardised by",
            action=f"Convert the data again, with --splits={TRAIN}=… among them.",
        )
    return found[TRAIN]
