"""Writes one shard: rows in hash order, with their images; and measures what it writes."""

import collections
import dataclasses
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Literal

import apache_beam as beam
import numpy as np
import pyarrow as pa
from apache_beam.io.filesystems import FileSystems
from apache_beam.pvalue import TaggedOutput

from beam_jobs.cells.images import BadImageError, read_image
from beam_jobs.cells.typed import ORDER_COLUMN, ORIGIN_COLUMN, arrow_schema
from beam_jobs.conversion import records as records_lib
from beam_jobs.conversion.assignment import Sent, ShardKey, shard_of
from beam_jobs.conversion.groups import fold, in_groups
from beam_jobs.conversion.plan import Plan
from beam_jobs.conversion.records import LAYOUTS, ShardFile, encode_rows
from beam_jobs.conversion.shuffle import Spill
from beam_jobs.conversion.statistics import add_rows
from beam_jobs.launch import claims
from beam_jobs.launch.outcome import REJECTED, WrittenFile
from beam_jobs.launch.run import Progress
from beam_jobs.sources.files import write_bytes
from beam_jobs.sources.source import Rejection
from pipeline.data.schema.feature_types import Image
from pipeline.data.schema.schema import Schema
from pipeline.data.statistics import encoding

MEASURED = "measured"
_ROWS_MEASURED = 1 << 18  # rows measured at once; a bucket has fewer, unless its rows are equal
NO_ROWS: Sent = (0, b"")  # sent to every shard, so that empty shards are written too


@dataclasses.dataclass(frozen=True, kw_only=True)
class WrittenShard(WrittenFile):
    """A shard, with index and origins, which lie at these paths until they are published."""

    split: str
    number: int
    index_path: str
    origins_path: str  # empty where no origins are kept
    records: int
    examples: int  # the rows or, where rows are in groups, the groups

    @property
    def groups_path(self) -> str:
        """The hashes of its groups' keys, where an input names a split and rows are in groups."""
        return f"{self.path}.groups"


class WriteShard(beam.DoFn):
    """(split, shard), `Sent` rows → WrittenShard; its other outputs are REJECTED, and (split, MEASURED)."""

    def __init__(
        self,
        schema: Schema,
        plan: Plan,
        *,
        directory: str,
        spill: Spill,
        progress: Progress,
        keeps_rejected_raw: bool = True,
    ) -> None:
        self._schema = schema
        self._layout = LAYOUTS[plan.layout]
        self._shards = dict(plan.shards)
        self._buckets = dict(plan.buckets)  # buckets of a shard, by split
        self._directory = directory
        self._spill = spill
        self._origins = plan.origins
        self._keeps_groups = bool(schema.group) and plan.has_named_splits
        self._root = plan.root  # origins of images are relative to it
        self._progress = progress
        self._keeps_rejected_raw = keeps_rejected_raw

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
            kept = rejection if self._keeps_rejected_raw else dataclasses.replace(rejection, raw="")
            yield TaggedOutput(REJECTED, kept)

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
                    ranked = ties_ranked(part, self._schema.of_rows)
                    if self._schema.group:
                        ranked, too_many = in_groups(ranked, self._schema)
                        rejected += too_many
                    yield ranked
                    self._progress.add(written=part.num_rows)

    def _write(
        self, split: str, number: int, rows: Iterable[pa.RecordBatch], measured: "_Measured"
    ) -> WrittenShard:
        if not FileSystems.exists(self._directory):
            # The launcher has died. Creating the file would bring back what the next run cleared.
            raise RuntimeError(f"{self._directory} is gone: its run has ended")
        file_name = claims.shard(self._schema.name, split, number, self._shards[split])
        path = claims.attempt(self._directory, file_name)
        with ShardFile(path, index_path=f"{path}.index") as file:
            for records in self._layout(rows, self._schema):
                file.add(records)
            digest = file.finish()
        if self._origins:
            records_lib.write_origin_files(
                f"{path}.origins", measured.places, files_id=self._origins, of=digest
            )
        if self._keeps_groups:
            write_bytes(
                f"{path}.groups", np.concatenate([np.zeros(0, np.uint64), *measured.groups]).tobytes()
            )
        return WrittenShard(
            split=split,
            number=number,
            path=path,
            index_path=f"{path}.index",
            origins_path=f"{path}.origins",
            file_name=file_name,
            rows=measured.rows,
            examples=measured.examples,
            records=digest.records,
            bytes=digest.bytes,
            sha256=digest.sha256,
        )


class _Measured:
    """Adds rows to the statistics as they pass, so they need not be sent anywhere for that; folds groups.

    Keeps their origins, 8 bytes for each row of a shard; an index takes 12 at the same time.
    """

    def __init__(self, schema: Schema, *, keeps_origins: bool) -> None:
        self._schema = schema
        self.accumulator = encoding.merged((), schema)
        self.rows = self.examples = 0
        self.places: list[np.ndarray] = []
        self.groups: list[np.ndarray] = []  # hashes of their keys
        self._keeps_origins = keeps_origins

    def __call__(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        for start in range(0, rows.num_rows, _ROWS_MEASURED):
            part = rows.slice(start, _ROWS_MEASURED)
            add_rows(self.accumulator, part, self._schema)
        self.rows += rows.num_rows
        if self._schema.group:
            rows = fold(rows, self._schema)
            self.groups.append(rows.column(ORDER_COLUMN).to_numpy())
        self.examples += rows.num_rows
        if self._keeps_origins:
            self.places.append(rows.column(ORIGIN_COLUMN).to_numpy())
        return rows


# --- The rows of one bucket in hash order.
#
# A bucket is planned by the bytes of the input. Its rows take many times as many bytes where the input is
# compressed, or where each byte of a text becomes two numbers of a row.


AT_ONCE = 64 << 20  # 64 MiB of rows are sorted at once; sorting takes three times as much memory

_ROWS_AT_ONCE = 1 << 13  # rows that are encoded at once to rank them

_Keep = Callable[[pa.RecordBatch], pa.RecordBatch]


def bucket_rows(
    sent: Sequence[bytes],
    schema: Schema,
    *,
    spill: Spill,
    number: int,
    count: int,
    at_once: int = AT_ONCE,
    origins: bool = False,
) -> Iterator[pa.RecordBatch]:
    """The rows `sent` to bucket `number` of the `count` buckets of its split, in parts of about `at_once`
    bytes.
    """
    columns = arrow_schema(schema, origins=origins)
    parts = -(-sum(map(spill.size, sent)) // at_once)
    for part in range(parts):
        rows = _together(sent, columns, spill=spill, keep=_only(number * parts + part, count * parts, parts))
        if rows.num_rows:
            yield in_hash_order(rows)


def in_hash_order(rows: pa.RecordBatch) -> pa.RecordBatch:
    """Sorts `rows` [rows] by their order hash, uint64."""
    order = rows.column(ORDER_COLUMN).to_numpy()
    if np.all(order[1:] >= order[:-1]):  # a row that is given millions of times is not copied
        return rows
    return rows.take(pa.array(np.argsort(order, kind="stable")))


def ties_ranked(rows: pa.RecordBatch, schema: Schema) -> pa.RecordBatch:
    """Sorts rows of one hash by records and origins, not by arrival; `rows` [rows] are in hash order."""
    order = rows.column(ORDER_COLUMN).to_numpy()
    same = order[1:] == order[:-1]
    tied = np.flatnonzero(np.append(same, False) | np.insert(same, 0, False))
    if not len(tied):
        return rows
    rank = _ranks(rows, tied, schema)
    if rank.any():  # otherwise all records are equal
        by_rank = np.lexsort((rank, order[tied]))
        position = np.arange(rows.num_rows)
        position[tied] = tied[by_rank]
        rows, rank = rows.take(pa.array(position)), rank[by_rank]
    return _origins_ranked(rows, tied, rank) if ORIGIN_COLUMN in rows.schema.names else rows


def _origins_ranked(rows: pa.RecordBatch, tied: np.ndarray, rank: np.ndarray) -> pa.RecordBatch:
    """Sorts the origins of equal records, which are neighbours; `rank` [tied] ranks the `tied` rows."""
    number = rows.schema.get_field_index(ORIGIN_COLUMN)
    origins = rows.column(number).to_numpy().copy()
    order = rows.column(ORDER_COLUMN).to_numpy()[tied]
    origins[tied] = origins[tied[np.lexsort((origins[tied], rank, order))]]
    return rows.set_column(number, rows.schema.field(number), pa.array(origins))


def _ranks(rows: pa.RecordBatch, chosen: np.ndarray, schema: Schema) -> np.ndarray:
    """Ranks the records of the `chosen` rows, int32 [chosen]; equal ones share a rank.

    Each record is kept once: tied rows are mostly one row that is given millions of times.
    """
    places: dict[bytes, int] = {}
    codes = []
    parts = (chosen[start : start + _ROWS_AT_ONCE] for start in range(0, len(chosen), _ROWS_AT_ONCE))
    for encoded in encode_rows((rows.take(pa.array(part)) for part in parts), schema):
        records = encoded.dictionary_encode()
        known = [places.setdefault(record, len(places)) for record in records.dictionary.to_pylist()]
        codes.append(np.array(known, np.int32)[records.indices.to_numpy()])
    ranks = np.empty(len(places), np.int32)
    ranks[[places[record] for record in sorted(places)]] = np.arange(len(places))
    return ranks[np.concatenate(codes)]


def _only(bucket: int, buckets: int, parts: int) -> _Keep:
    """Returns a function that keeps the rows of one of `buckets`, or all rows where there is one part."""
    if parts == 1:
        return lambda rows: rows

    def keep(rows: pa.RecordBatch) -> pa.RecordBatch:
        return rows.filter(pa.array(shard_of(rows.column(ORDER_COLUMN).to_numpy(), buckets) == bucket))

    return keep


def _together(sent: Iterable[bytes], rows: pa.Schema, *, spill: Spill, keep: _Keep) -> pa.RecordBatch:
    read = [keep(pa.ipc.read_record_batch(pa.py_buffer(spill.get(one)), rows)) for one in sent]
    batches = pa.Table.from_batches(read, rows).combine_chunks().to_batches()
    # A table without rows has no batches.
    return batches[0] if batches else pa.RecordBatch.from_pylist([], rows)


# --- The bytes of images in place of their paths.


_BYTES_AT_ONCE = 2 << 20  # 2 MiB, so that what was read is still in the processor's cache when it is written


def load_images(rows: pa.RecordBatch, schema: Schema, *, root: str) -> tuple[pa.RecordBatch, list[Rejection]]:
    """Returns `rows` [rows] without bad images, and the rejected ones; origins are relative to `root`."""
    features = schema.of_type(Image)
    return _loaded(rows, features, [_read(images, features, root=root) for images in _cells(rows, features)])


def load_in_parts(
    rows: pa.RecordBatch, schema: Schema, *, root: str
) -> Iterator[tuple[pa.RecordBatch, list[Rejection]]]:
    """Loads images of `rows` [rows] in hash order, a few at a time; rows with the same hash stay together."""
    features = schema.of_type(Image)
    if not features:
        yield rows, []
        return
    order = rows.column(ORDER_COLUMN).to_numpy()
    may_end = np.append(order[1:] != order[:-1], True).tolist()
    start, size, read = 0, 0, []
    for row, images in enumerate(_cells(rows, features)):
        read.append(_read(images, features, root=root))
        size += sum(map(len, read[-1])) if isinstance(read[-1], list) else 0
        if size >= _BYTES_AT_ONCE and may_end[row]:
            yield _loaded(rows.slice(start, len(read)), features, read)
            start, size, read = row + 1, 0, []
    yield _loaded(rows.slice(start), features, read)


def _cells(rows: pa.RecordBatch, features: Sequence[Image]) -> Iterator[tuple[Mapping, ...]]:
    """The images of each row: a path, or bytes."""
    return zip(*(rows.column(feature.name).to_pylist() for feature in features), strict=True)


def _read(images: Sequence[Mapping], features: Sequence[Image], *, root: str) -> list[bytes] | Rejection:
    """The bytes of one row's images, or what is wrong with the first bad one."""
    read = []
    for image, feature in zip(images, features, strict=True):
        path, data = image["path"], image["data"]
        try:
            read.append(read_image(path, feature) if data is None else data)
        except BadImageError as error:
            source, column = path.removeprefix(root), feature.source_column
            return Rejection(source=source, row=None, column=column, reason=str(error))
    return read


def _loaded(
    rows: pa.RecordBatch, features: Sequence[Image], read: Sequence[list[bytes] | Rejection]
) -> tuple[pa.RecordBatch, list[Rejection]]:
    """Returns `rows` with the bytes that were `read` for them, and the rejections among what was read."""
    good = [images for images in read if isinstance(images, list)]
    if len(good) < len(read):
        rows = rows.filter(pa.array([isinstance(images, list) for images in read]))
    for number, feature in enumerate(features):
        images = pa.array([images[number] for images in good], pa.large_binary())
        rows = rows.set_column(rows.schema.get_field_index(feature.name), feature.name, images)
    return rows, [rejection for rejection in read if isinstance(rejection, Rejection)]
