"""Writes one shard: rows in hash order, with their images; and measures what it writes."""

import collections
import dataclasses
import uuid
from collections.abc import Iterable, Iterator
from typing import Literal

import apache_beam as beam
import numpy as np
import pyarrow as pa
from apache_beam.io.filesystems import FileSystems
from apache_beam.pvalue import TaggedOutput

from beam_jobs.cells.rows import ORDER_COLUMN, arrow_schema
from beam_jobs.conversion.assignment import Sent, ShardKey
from beam_jobs.conversion.image_loading import load_in_parts
from beam_jobs.conversion.plan import Plan
from beam_jobs.conversion.shuffle_files import Spill
from beam_jobs.launch.outcome import REJECTED, WrittenFile
from beam_jobs.launch.progress import Progress
from beam_jobs.publication import file_names
from beam_jobs.records.examples import encode
from beam_jobs.records.layouts import LAYOUTS
from beam_jobs.records.shard_file import ShardFile
from beam_jobs.sources.pieces.rejections import Rejection
from beam_jobs.statistics.combine import SplitStatisticsFn
from pipeline.data.schema.schema import Schema

MEASURED = "measured"
_ROWS_AT_ONCE = 1 << 13  # that are encoded to rank them
NO_ROWS: Sent = (0, b"")  # sent to every shard, so that one without rows is written too


@dataclasses.dataclass(frozen=True, kw_only=True)
class WrittenShard(WrittenFile):
    """A shard, with its index, which lies at `index_path` until it is published."""

    split: str
    number: int
    index_path: str
    records: int


class WriteShard(beam.DoFn):
    """(split, shard), `Sent` rows → WrittenShard. Outputs aside: REJECTED, and (split, MEASURED)."""

    def __init__(
        self, schema: Schema, plan: Plan, *, directory: str, spill: Spill, progress: Progress
    ) -> None:
        self._schema = schema
        self._layout = LAYOUTS[plan.layout]
        self._shards = dict(plan.shards)
        self._directory = directory
        self._spill = spill
        self._root = plan.root  # origins of images are relative to it
        self._progress = progress

    def process(
        self, element: tuple[ShardKey, Iterable[Sent]]
    ) -> Iterator[
        WrittenShard
        | TaggedOutput[Literal["measured"], tuple[str, object]]
        | TaggedOutput[Literal["rejected"], Rejection]
    ]:
        (split, number), sent = element
        measured = _Measured(self._schema)
        rejected: list[Rejection] = []
        yield self._write(split, number, map(measured, self._buckets(sent, rejected)), measured)
        yield TaggedOutput(MEASURED, (split, measured.accumulator))
        for rejection in rejected:
            yield TaggedOutput(REJECTED, rejection)

    def _buckets(self, sent: Iterable[Sent], rejected: list[Rejection]) -> Iterator[pa.RecordBatch]:
        """The rows in hash order, at most a bucket at a time; adds to `rejected`."""
        by_bucket = collections.defaultdict(list)
        for bucket, value in sent:
            if value:
                by_bucket[bucket].append(value)
        for bucket in sorted(by_bucket):
            rows = _together(map(self._spill.get, by_bucket.pop(bucket)), arrow_schema(self._schema))
            for part, bad in load_in_parts(in_hash_order(rows), self._schema, root=self._root):
                rejected += bad
                yield ties_ranked(part, self._schema)
                self._progress.add(written=part.num_rows)

    def _write(
        self, split: str, number: int, rows: Iterable[pa.RecordBatch], measured: "_Measured"
    ) -> WrittenShard:
        if not FileSystems.exists(self._directory):
            # The launcher has died. Creating the file would bring back what the next run cleared.
            raise RuntimeError(f"{self._directory} is gone: its run has ended")
        file_name = file_names.shard(self._schema.name, split, number, self._shards[split])
        # A runner may write a shard twice at once: each attempt has its own file, and one is published.
        path = FileSystems.join(self._directory, f"{file_name}.{uuid.uuid4().hex}")
        with ShardFile(path, index_path=f"{path}.index") as file:
            for records in self._layout(rows, self._schema):
                file.add(records)
            digest = file.finish()
        return WrittenShard(
            split=split,
            number=number,
            path=path,
            index_path=f"{path}.index",
            file_name=file_name,
            rows=measured.rows,
            records=digest.records,
            bytes=digest.bytes,
            sha256=digest.sha256,
        )


class _Measured:
    """Adds the rows that pass by to the statistics, so that they need not be sent anywhere for it."""

    def __init__(self, schema: Schema) -> None:
        self._statistics = SplitStatisticsFn(schema)
        self.accumulator = self._statistics.create_accumulator()
        self.rows = 0

    def __call__(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        self.accumulator = self._statistics.add_input(self.accumulator, rows)
        self.rows += rows.num_rows
        return rows


def in_hash_order(rows: pa.RecordBatch) -> pa.RecordBatch:
    """`rows` [rows] sorted by their order hash, uint64."""
    return rows.take(pa.array(np.argsort(rows.column(ORDER_COLUMN).to_numpy(), kind="stable")))


def ties_ranked(rows: pa.RecordBatch, schema: Schema) -> pa.RecordBatch:
    """`rows` [rows] in hash order → those of one hash sorted by their records, not by arrival."""
    order = rows.column(ORDER_COLUMN).to_numpy()
    same = order[1:] == order[:-1]
    tied = np.flatnonzero(np.append(same, False) | np.insert(same, 0, False))
    if not len(tied):
        return rows
    rank = _ranks(rows, tied, schema)
    position = np.arange(rows.num_rows)
    position[tied] = tied[np.lexsort((rank, order[tied]))]
    return rows if np.array_equal(position[tied], tied) else rows.take(pa.array(position))


def _ranks(rows: pa.RecordBatch, chosen: np.ndarray, schema: Schema) -> np.ndarray:
    """The place of each `chosen` row's record among all of them, equal ones sharing it: int64 [chosen].

    A record is kept once: rows that are tied are mostly one row, given millions of times.
    """
    places: dict[bytes, int] = {}
    codes = np.empty(len(chosen), np.int64)
    for start in range(0, len(chosen), _ROWS_AT_ONCE):
        part = chosen[start : start + _ROWS_AT_ONCE]
        records = encode(rows.take(pa.array(part)), schema).dictionary_encode()
        known = [places.setdefault(record, len(places)) for record in records.dictionary.to_pylist()]
        codes[start : start + len(part)] = np.array(known, np.int64)[records.indices.to_numpy()]
    ranks = np.empty(len(places), np.int64)
    ranks[[places[record] for record in sorted(places)]] = np.arange(len(places))
    return ranks[codes]


def _together(parts: Iterable[bytes], schema: pa.Schema) -> pa.RecordBatch:
    read = [pa.ipc.read_record_batch(pa.py_buffer(part), schema) for part in parts]
    return pa.Table.from_batches(read, schema).combine_chunks().to_batches()[0]
