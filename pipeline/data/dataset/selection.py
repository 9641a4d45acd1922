"""The rows of a dataset that are read: a split, a part of one, or several, spelt as in TensorFlow Datasets.

`train`, `train[:10%]`, `train[1000:]`, `train[-5%:]`, `train[2shard]`, `train[:50%]+validation`, `all`.
Percentages are rounded to whole rows as TFDS rounds them. Rows are stored in the order of a hash, so a part
is a random sample.
"""

import dataclasses
import itertools
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from pipeline.base.errors import InputError
from pipeline.data.dataset import shards as shards_lib
from pipeline.data.dataset.manifest import Dataset
from pipeline.data.dataset.shards import Ranges, Shards

_ALL = "all"  # every split, unless one has this name


@dataclasses.dataclass(frozen=True, kw_only=True)
class Selection:
    """Some of the rows of `shards`: those in the ranges, one range after the other."""

    dataset: Dataset
    expression: str
    shards: Shards
    ranges: Ranges
    is_checked: bool = False  # every record's checksum was compared, and damaged records are left out

    @property
    def rows(self) -> int:
        return sum(last - first for first, last in self.ranges)

    def part(self, first: int, end: int) -> "Selection":
        """The rows from `first` to before `end`, counted over all that are selected."""
        kept, before = [], 0
        for low, high in self.ranges:
            cut = max(low, low + first - before), min(high, low + end - before)
            kept += [cut] if cut[0] < cut[1] else []
            before += high - low
        return dataclasses.replace(self, ranges=tuple(kept))

    def without(self, records: Iterable[int]) -> "Selection":
        """The selection without whole records, given by their numbers in `shards`."""
        rows = sorted(set(map(self.shards.rows_of_record, records)))
        return dataclasses.replace(self, ranges=tuple(_cut_out(self.ranges, rows)))

    @property
    def record_ranges(self) -> Ranges:
        """The records that hold selected rows, by their numbers over all shards: ascending, with gaps."""
        found: list[tuple[int, int]] = []
        for first, last in self.ranges:
            begin, end = self.shards.record_of_row(first), self.shards.record_of_row(last - 1) + 1
            if found and begin <= found[-1][1]:  # in a block that the range before ends in
                begin = found.pop()[0]
            found.append((begin, end))
        return tuple(found)


class _Part(NamedTuple):
    """Rows [first, end) of a split."""

    split: str
    first: int
    end: int


def select(dataset: Dataset, expression: str) -> Selection:
    """Selects rows; raises InputError if the expression is wrong, names no split, or selects nothing."""
    splits, ranges = selected_ranges(dataset, expression)
    shards = shards_lib.load_tables(dataset, splits)
    return Selection(dataset=dataset, expression=expression, shards=shards, ranges=ranges)


def selected_ranges(dataset: Dataset, expression: str) -> tuple[list[str], Ranges]:
    """The splits that `select` reads, and the rows, numbered over these splits. Reads no index."""
    parts = _parts(dataset, expression)
    splits = list(dict.fromkeys(part.split for part in parts))
    begins = dict(zip(splits, np.cumsum([0, *(dataset.rows(split) for split in splits)]), strict=False))
    if any(part.first > part.end for part in parts):  # TFDS reads more than is between them, or nothing
        received = "a part that ends before it begins"
        raise _wrong(dataset, expression, received, "bounds in order", "Swap the bounds.")
    ranges = [(int(begins[part.split]) + part.first, int(begins[part.split]) + part.end) for part in parts]
    kept = tuple(sorted((first, last) for first, last in ranges if first < last))
    if not kept:
        raise _wrong(dataset, expression, "no records", "at least one", "Select more, or change --splits.")
    if any(before[1] > after[0] for before, after in itertools.pairwise(kept)):
        raise _wrong(dataset, expression, "parts that overlap", "each row once", "Correct the bounds.")
    return splits, kept


def _parts(dataset: Dataset, expression: str) -> list[_Part]:
    sizes = {split: dataset.rows(split) for split in dataset.manifest.splits}
    if expression in sizes:  # importing TFDS takes a third of a second, and most expressions need none
        return [_Part(expression, 0, sizes[expression])]
    if not set("[+") & set(expression) and expression != _ALL:
        dataset.shards(expression)  # raises, naming the splits there are
    return _parsed(dataset, expression, sizes)


def _parsed(dataset: Dataset, expression: str, sizes: dict[str, int]) -> list[_Part]:
    import tensorflow_datasets as tfds

    infos = {
        split: tfds.core.SplitInfo(
            name=split, shard_lengths=[shard.rows for shard in dataset.shards(split)], num_bytes=0
        )
        for split in sizes
    }
    try:
        parts = tfds.core.ReadInstruction.from_spec(expression).to_absolute(infos)
    except (ValueError, AssertionError, KeyError, NotImplementedError) as error:
        raise _wrong(
            dataset,
            expression,
            str(error).splitlines()[0],
            f"an expression such as 'train[:10%]' over {', '.join(sizes)}",
            "Correct the split's expression.",
        ) from None
    return [_Part(p.splitname, p.from_ or 0, sizes[p.splitname] if p.to is None else p.to) for p in parts]


def _cut_out(ranges: Ranges, out: Sequence[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """Cuts the ranges `out` out of others; both ascend."""
    left = iter(out)
    gap = next(left, None)
    for begin, end in ranges:
        while gap and gap[1] <= begin:
            gap = next(left, None)
        while gap and gap[0] < end:
            if begin < gap[0]:
                yield begin, gap[0]
            begin = gap[1]
            if begin >= end:
                break  # it may reach into the next range
            gap = next(left, None)
        if begin < end:
            yield begin, end


def _wrong(dataset: Dataset, expression: str, received: str, expected: str, action: str) -> InputError:
    return InputError(
        f"dataset {dataset}, split '{expression}'",
        received=received,
        expected=expected,
        action=action,
    )
