"""The rows of a dataset that are read: a split, a part of one, or several, spelt as in TensorFlow Datasets.

`train`, `train[:10%]`, `train[1000:]`, `train[-5%:]`, `train[2shard]`, `train[:50%]+validation`, `all`.
Percentages are rounded to whole rows as TFDS rounds them. Rows are stored in the order of a hash, so a part
is a random sample.
"""

import dataclasses
import itertools
import re
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
        """The rows [first, end), counted over all that are selected."""
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

    def shares_rows(self, other: "Selection") -> bool:
        """Returns whether a row is in both."""
        own, others = self._by_file(), other._by_file()
        pairs = (itertools.product(own[path], others[path]) for path in own.keys() & others.keys())
        return any(
            one[0] < another[1] and another[0] < one[1]
            for one, another in itertools.chain.from_iterable(pairs)
        )

    def _by_file(self) -> dict[str, list[tuple[int, int]]]:
        """The ranges of rows in each shard that has some, numbered from its first."""
        found: dict[str, list[tuple[int, int]]] = {}
        starts = self.shards.row_starts.tolist()
        for path, (begin, end) in zip(self.shards.paths, itertools.pairwise(starts), strict=True):
            cut = [(max(first, begin) - begin, min(last, end) - begin) for first, last in self.ranges]
            if kept := [(first, last) for first, last in cut if first < last]:
                found[path] = kept
        return found

    @property
    def record_ranges(self) -> Ranges:
        """The records that hold selected rows, by their numbers over all shards: ascending, with gaps."""
        found: list[tuple[int, int]] = []
        for first, last in self.ranges:
            begin, end = self.shards.record_of_row(first), self.shards.record_of_row(last - 1) + 1
            if found and begin <= found[-1][1]:  # the range begins in a block in which the range before ends
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
    # There TFDS reads more rows than lie between the bounds, or none.
    if any(part.first > part.end for part in parts):
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
    if expression in sizes:
        return [_Part(expression, 0, sizes[expression])]
    if not set("[+") & set(expression) and expression != _ALL:
        dataset.shards(expression)  # raises an error that names the splits there are
    return _parsed(dataset, expression, sizes)


# `train`, `train[1shard]`, `train[-5%:]`; all numbers of a part have one unit.
_PART = re.compile(r"(?P<split>[\w-]+)(\[(?P<bounds>[^\]]*)\])?")
_BOUND = re.compile(r"((?P<number>-?[\d_]+(\.\d+)?)(?P<unit>%|shard)?)?")


def _parsed(dataset: Dataset, expression: str, sizes: dict[str, int]) -> list[_Part]:
    parts = re.split(r"\s*\+\s*", expression)
    if _ALL in parts:
        parts = [name for part in parts for name in (sizes if part == _ALL else [part])]
    try:
        return [_part(dataset, part, sizes) for part in parts]
    except ValueError as error:
        expected = f"an expression such as 'train[:10%]' over {', '.join(sizes)}"
        raise _wrong(dataset, expression, str(error), expected, "Correct the split's expression.") from None


def _part(dataset: Dataset, text: str, sizes: dict[str, int]) -> _Part:
    found = _PART.fullmatch(text)
    if not found or found["split"] not in sizes:
        raise ValueError(f"'{text}', which is no split or part of one")
    split, size = found["split"], sizes[found["split"]]
    if found["bounds"] is None:
        return _Part(split, 0, size)
    bounds = [_BOUND.fullmatch(bound) for bound in found["bounds"].split(":")]
    if not all(bounds) or not any(bound["number"] for bound in bounds) or len(bounds) > 2:
        raise ValueError(f"'{text}', which has no valid bounds")
    unit = next((bound["unit"] for bound in bounds if bound["unit"]), "")
    if len(bounds) == 1 and unit != "shard":
        raise ValueError(f"'{text}', which has one bound")
    numbers = [_number(bound["number"], unit) for bound in bounds]
    if len(numbers) == 1:
        numbers.append(numbers[0] + 1)
    rows = [shard.rows for shard in dataset.shards(split)]
    first, end = _rows_of(numbers, unit, rows)
    if abs(first) > size or abs(end) > size:
        raise ValueError(f"'{text}', which is more than the {size:,} rows of the split")
    return _Part(split, first + size * (first < 0), end + size * (end < 0))


def _number(text: str | None, unit: str) -> float | int | None:
    if text is None:
        return None
    number = float(text) if unit == "%" else int(text)
    if unit == "%" and abs(number) > 100:
        raise ValueError(f"{text}%, which is not within -100% and 100%")
    return number


def _rows_of(numbers: Sequence[float | int | None], unit: str, shards: Sequence[int]) -> tuple[int, int]:
    """Bounds in rows; negative ones count from the end, as in TFDS."""
    first, end = numbers
    size = sum(shards)
    if unit == "shard":
        if end is not None and end <= 0:
            end += len(shards)
        return sum(shards[:first]) if first is not None else 0, sum(shards[:end])
    if unit == "%":
        first, end = (each if each is None else round(each * size / 100) for each in (first, end))
    return first or 0, size if end is None else end


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
                break  # this one may reach into the next range
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
