"""Which row stands at a position of the stream, in NumPy: the inverse of what `order.py` and `windows.py` do.

Any position is answered by itself, so a reader of any kind finds the row that training reads there. No
TensorFlow.
"""

import dataclasses
import functools
from collections.abc import Callable
from typing import Literal

import numpy as np

from pipeline.base.errors import InputError
from pipeline.data.dataset.selection import Selection
from pipeline.data.reading.permutation import WHOLE_EPOCH, Permutation
from pipeline.data.reading.window_parts import WindowParts, cut_windows

# 4 KiB: from this size on, decoding a record costs more than fetching it by itself.
SINGLE_RECORD_BYTES = 4 << 10
SHUFFLES = ("auto", "global", "windows")

WayName = Literal["single", "windows", "mapped"]  # the keys of stream.WAYS

Order = Callable[
    [np.ndarray], np.ndarray
]  # positions, int64 [n] → numbers of rows over all shards, int64 [n]

_EPOCHS_KEPT = 2  # epochs whose order is kept: readers go from one to the next


def way_of(selection: Selection, shuffle: str) -> WayName:
    """The way in which a selection is read: resolves "auto", "global" and "windows".

    Raises:
      InputError: `shuffle` has another value.
    """
    if shuffle not in SHUFFLES:
        raise InputError(
            "--config.shuffle",
            received=shuffle,
            expected="'auto', 'global' or 'windows'",
            action="Choose one; 'auto' takes 'windows' for small records and 'global' for all others.",
        )
    if shuffle == "windows":
        return "windows"
    if selection.shards.rows_in_record > 1:
        return "mapped"
    is_large = selection.shards.mean_bytes >= SINGLE_RECORD_BYTES
    return "single" if is_large or shuffle == "global" else "windows"


def stored_order(selection: Selection) -> Order:
    """The rows in stored order, the same in every epoch."""
    return _Stored(selection)


def stream_order(selection: Selection, *, seed: int, global_batch: int, shuffle: str = "auto") -> Order:
    """The rows in the order of a training stream; the arguments are those of its plan."""
    if way_of(selection, shuffle) == "windows":
        return _Windows(selection, seed=seed, global_batch=global_batch)
    return _Permuted(selection, Permutation(selection.rows, seed=seed))


@dataclasses.dataclass(frozen=True)
class _Stored:
    selection: Selection

    def __call__(self, positions: np.ndarray) -> np.ndarray:
        return _selected(positions % self.selection.rows, self.selection)


@dataclasses.dataclass(frozen=True)
class _Permuted:
    """A permutation of the whole epoch; each epoch has its own."""

    selection: Selection
    permutation: Permutation

    def __call__(self, positions: np.ndarray) -> np.ndarray:
        epochs, offsets = np.divmod(positions, self.selection.rows)
        return _selected(self.permutation(offsets, epochs), self.selection)


def _selected(numbers: np.ndarray, selection: Selection) -> np.ndarray:
    """Numbers of selected rows → their numbers over all shards."""
    if len(selection.ranges) == 1:
        return numbers + selection.ranges[0][0]
    firsts, lasts = np.array(selection.ranges, np.int64).T
    starts = np.cumsum(lasts - firsts) - (lasts - firsts)
    part = np.searchsorted(starts, numbers, side="right") - 1
    return numbers - starts[part] + firsts[part]


# --- Windows: which window of which canonical shard holds a position, and which row of the window stands
# there.


class _Windows:
    """Positions and rows of a selection that is read in windows; `canonical_shards.py` explains the terms."""

    def __init__(self, selection: Selection, *, seed: int, global_batch: int) -> None:
        self._rows, self._seed, self._global_batch = selection.rows, seed, global_batch
        self._parts = cut_windows(selection)
        self._shards = self._parts.canonical_shards(global_batch)
        self._window_rows = self._parts.window_rows(self._shards)
        self._epoch = functools.lru_cache(maxsize=_EPOCHS_KEPT)(self._entered)

    def __getstate__(self) -> dict:
        return {name: value for name, value in vars(self).items() if name != "_epoch"}

    def __setstate__(self, state: dict) -> None:
        vars(self).update(state)
        self._epoch = functools.lru_cache(maxsize=_EPOCHS_KEPT)(self._entered)

    def __call__(self, positions: np.ndarray) -> np.ndarray:
        epochs, found = positions // self._rows, np.empty(len(positions), np.int64)
        for epoch in np.unique(epochs).tolist():
            of_epoch = epochs == epoch
            found[of_epoch] = self._of_epoch(epoch, positions[of_epoch])
        return found

    def _of_epoch(self, epoch: int, positions: np.ndarray) -> np.ndarray:
        """The rows at positions of one epoch."""
        begun, segments, order_of_parts = self._epoch(epoch)
        size = self._global_batch // self._shards
        batches, in_batch = np.divmod(positions, self._global_batch)
        shard, in_run = np.divmod(in_batch, size)
        row = batches * size + in_run - begun[shard]
        window = segments.rows_before(shard, segments.range_of(shard, row)) // self._window_rows
        first, end = (
            segments.rows_before(shard, segments.ranges_before(shard, at * self._window_rows))
            for at in (window, window + 1)
        )
        key = window * self._shards + shard
        read = first + Permutation(end - first, seed=self._seed).inverse(row - first, epoch, key)
        part, offset = segments.part_of(shard, read)
        return self._parts.first_row[order_of_parts[part]] + offset

    def _entered(self, epoch: int) -> tuple[np.ndarray, "_Segments", np.ndarray]:
        """Rows of each shard before the epoch, the segments of the shards, and the order of the parts."""
        begun, after = (self._rows_before(at * self._rows) for at in (epoch, epoch + 1))
        parts = len(self._parts.rows)
        order = Permutation(parts, seed=self._seed)(np.arange(parts), epoch, WHOLE_EPOCH)
        return begun, _Segments.of(self._parts, order, sizes=after - begun), order

    def _rows_before(self, position: int) -> np.ndarray:
        """Counts the rows of each shard at positions before this one: int64 [shards]."""
        size = self._global_batch // self._shards
        batches, rest = divmod(position, self._global_batch)
        return batches * size + np.clip(rest - np.arange(0, self._global_batch, size), 0, size)


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Segments:
    """`canonical_shards.Segments` of all shards; the methods take n shards and one number for each, both
    [n].
    """

    starts: np.ndarray  # int64 [parts + 1], rows before each part, and in all, in the order of the epoch
    begins: np.ndarray  # int64 [shards] each, like all that follow
    sizes: np.ndarray
    ends: np.ndarray
    first: np.ndarray
    whole: np.ndarray
    turned_at: np.ndarray
    is_cut: np.ndarray

    @classmethod
    def of(cls, parts: WindowParts, order: np.ndarray, *, sizes: np.ndarray) -> "_Segments":
        """Makes the segments of shards that have `sizes` rows each, in the parts as they are ordered."""
        starts = np.concatenate([[0], np.cumsum(parts.rows[order])])
        begins = np.cumsum(sizes) - sizes
        ends = begins + sizes
        first, after = np.searchsorted(starts, begins), np.searchsorted(starts, ends)
        turned_at = np.minimum(starts[np.minimum(first, len(starts) - 1)], ends)
        return cls(
            starts=starts,
            begins=begins,
            sizes=sizes,
            ends=ends,
            first=first,
            whole=np.maximum(after - first, 0),
            turned_at=turned_at,
            is_cut=(begins < turned_at).astype(np.int64),
        )

    def ranges_before(self, shard: np.ndarray, rows: np.ndarray) -> np.ndarray:
        """Counts the ranges of each shard that begin before its row, in the order of reading."""
        until = self.turned_at[shard] + rows
        whole = np.searchsorted(self.starts, until) - self.first[shard]
        last = (until > self.ends[shard]) * self.is_cut[shard]
        return np.clip(whole, 0, self.whole[shard]) + last

    def rows_before(self, shard: np.ndarray, ranges: np.ndarray) -> np.ndarray:
        """Counts the rows that each shard reads before its range."""
        start = self.starts[np.minimum(self.first[shard] + ranges, len(self.starts) - 1)]
        rows = np.minimum(start, self.ends[shard]) - self.turned_at[shard]
        return np.where(ranges > self.whole[shard], self.sizes[shard], rows)

    def range_of(self, shard: np.ndarray, rows: np.ndarray) -> np.ndarray:
        """The range in which each shard's row is."""
        return np.maximum(self.ranges_before(shard, rows + 1) - 1, 0)

    def part_of(self, shard: np.ndarray, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The part, in the order of the epoch, that holds each shard's row; and the row's number in it."""
        number = self.range_of(shard, rows)
        is_cut = number == self.whole[shard]
        part = self.first[shard] + np.where(is_cut, -1, number)
        begin = np.where(is_cut, self.begins[shard], self.starts[np.maximum(part, 0)])
        return part, begin - self.starts[part] + rows - self.rows_before(shard, number)
