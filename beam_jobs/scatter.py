"""Sends each row of a batch to its shard, and there to its bucket.

A bucket is a contiguous part of a shard's range of the order hash, small enough to be sorted and encoded in
memory. So the memory that a run needs does not grow with its data, and no value in the shuffle is large.
"""

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from beam_jobs import assign
from beam_jobs.plan import Plan
from beam_jobs.spill import Spill

ShardKey = tuple[str, int]  # split, shard
Sent = tuple[int, bytes]  # bucket, what stands for its rows as Arrow IPC


class Scatter:
    """Rows in any order → (split, shard), (bucket, rows as `Spill` sends them)."""

    def __init__(self, plan: Plan, spill: Spill) -> None:
        self._fractions = dict(plan.fractions)
        self._shards = dict(plan.shards)
        self._buckets = dict(plan.buckets)
        self._spill = spill

    def __call__(
        self, rows: pa.RecordBatch, groups: pa.Array, *, pinned: str
    ) -> Iterator[tuple[ShardKey, Sent]]:
        """`groups` binary [rows] decides the split; rows of one `pinned` to a split all go there.

        Column 0 of `rows` is the order hash, which decides shard and bucket.
        """
        splits = (pinned,) if pinned else tuple(self._fractions)
        split = np.zeros(rows.num_rows, np.int64)
        if not pinned:
            hashes = assign.hash_ids(groups, purpose=assign.SPLIT)
            split = assign.split_of(hashes, list(self._fractions.values()))
        place = self._places(splits, split, rows.column(0).to_numpy())
        by_place = np.argsort(place, kind="stable")
        starts = np.flatnonzero(np.diff(place[by_place], prepend=-1))
        yield from self._sent(splits, rows.take(pa.array(by_place)), place[by_place], starts)

    def _places(self, splits: tuple[str, ...], split: np.ndarray, order: np.ndarray) -> np.ndarray:
        """int64 [rows]: the buckets of all shards of all splits, numbered through."""
        place, before = np.zeros(len(order), np.int64), 0
        for index, name in enumerate(splits):
            mine, buckets = split == index, self._shards[name] * self._buckets[name]
            place[mine] = before + assign.shard_of(order[mine], buckets)
            before += buckets
        return place

    def _sent(
        self, splits: tuple[str, ...], rows: pa.RecordBatch, place: np.ndarray, starts: np.ndarray
    ) -> Iterator[tuple[ShardKey, Sent]]:
        keys = [
            ((split, shard), bucket)
            for split in splits
            for shard in range(self._shards[split])
            for bucket in range(self._buckets[split])
        ]
        lengths = np.diff(starts, append=rows.num_rows)
        parts = [
            rows.slice(start, length).serialize().to_pybytes()
            for start, length in zip(starts.tolist(), lengths.tolist(), strict=True)
        ]
        for number, sent in zip(place[starts].tolist(), self._spill.put(parts), strict=True):
            key, bucket = keys[number]
            yield key, (bucket, sent)
