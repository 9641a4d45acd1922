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

from beam_jobs.cells.rows import ORIGIN_COLUMN
from beam_jobs.conversion.assignment import Sent, ShardKey
from beam_jobs.conversion.bucket_rows import bucket_rows, ties_ranked
from beam_jobs.conversion.image_loading import load_in_parts
from beam_jobs.conversion.plan import Plan
from beam_jobs.conversion.shuffle_files import Spill
from beam_jobs.launch.outcome import REJECTED, WrittenFile
from beam_jobs.launch.progress import Progress
from beam_jobs.publication import file_names
from beam_jobs.records import origin_file
from beam_jobs.records.layouts import LAYOUTS
from beam_jobs.records.shard_file import ShardFile
from beam_jobs.sources.pieces.rejections import Rejection
from beam_jobs.statistics.combine import add_rows
from pipeline.data.schema.schema import Schema
from pipeline.data.statistics import accumulator_file

MEASURED = "measured"
_ROWS_MEASURED = 1 << 18  # at once: a bucket has fewer, unless its rows are equal
NO_ROWS: Sent = (0, b"")  # sent to every shard, so that one without rows is written too


@dataclasses.dataclass(frozen=True, kw_only=True)
class WrittenShard(WrittenFile):
    """A shard, with index and origins, which lie at these paths until they are published."""

    split: str
    number: int
    index_path: str
    origins_path: str  # where origins are kept
    records: int


class WriteShard(beam.DoFn):
    """(split, shard), `Sent` rows → WrittenShard. Outputs aside: REJECTED, and (split, MEASURED)."""

    def __init__(
        self, schema: Schema, plan: Plan, *, directory: str, spill: Spill, progress: Progress
    ) -> None:
        self._schema = schema
        self._layout = LAYOUTS[plan.layout]
        self._shards = dict(plan.shards)
        self._buckets = dict(plan.buckets)  # of a shard, by split
        self._directory = directory
        self._spill = spill
        self._origins = plan.origins
        self._root = plan.root  # origins of images are relative to it
        self._progress = progress

    def process(
        self, element: tuple[ShardKey, Iterable[Sent]]
    ) -> Iterator[
        WrittenShard
        | TaggedOutput[Literal["measured"], tuple[str, object]]
        | TaggedOutput[Literal["rejected"], Rejection]
    ]:
        (split, number), _ = element
        measured = _Measured(self._schema, keeps_origins=bool(self._origins))
        rejected: list[Rejection] = []
        yield self._write(split, number, map(measured, self._rows(element, rejected)), measured)
        yield TaggedOutput(MEASURED, (split, measured.accumulator))
        for rejection in rejected:
            yield TaggedOutput(REJECTED, rejection)

    def _rows(
        self, element: tuple[ShardKey, Iterable[Sent]], rejected: list[Rejection]
    ) -> Iterator[pa.RecordBatch]:
        """The shard's rows in hash order, at most a bucket at a time; adds to `rejected`."""
        (split, number), sent = element
        by_bucket = collections.defaultdict(list)
        for bucket, value in sent:
            if value:
                by_bucket[bucket].append(value)
        in_split = self._shards[split] * self._buckets[split]
        for bucket in sorted(by_bucket):
            of_split = number * self._buckets[split] + bucket
            values = by_bucket.pop(bucket)
            for rows in bucket_rows(
                values,
                self._schema,
                spill=self._spill,
                number=of_split,
                count=in_split,
                origins=bool(self._origins),
            ):
                for part, bad in load_in_parts(rows, self._schema, root=self._root):
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
        if self._origins:
            origin_file.write(f"{path}.origins", measured.places, files_id=self._origins, of=digest)
        return WrittenShard(
            split=split,
            number=number,
            path=path,
            index_path=f"{path}.index",
            origins_path=f"{path}.origins",
            file_name=file_name,
            rows=measured.rows,
            records=digest.records,
            bytes=digest.bytes,
            sha256=digest.sha256,
        )


class _Measured:
    """Adds the rows that pass by to the statistics, so that they need not be sent anywhere for it.

    Keeps their origins, 8 bytes a row of a shard; an index takes 12 meanwhile.
    """

    def __init__(self, schema: Schema, *, keeps_origins: bool) -> None:
        self._schema = schema
        self.accumulator = accumulator_file.merged((), schema)
        self.rows = 0
        self.places: list[np.ndarray] = []
        self._keeps_origins = keeps_origins

    def __call__(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        for start in range(0, rows.num_rows, _ROWS_MEASURED):
            part = rows.slice(start, _ROWS_MEASURED)
            add_rows(self.accumulator, part, self._schema)
        self.rows += rows.num_rows
        if self._keeps_origins:
            self.places.append(rows.column(ORIGIN_COLUMN).to_numpy())
        return rows
