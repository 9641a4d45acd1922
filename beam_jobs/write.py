"""Writes one shard: its rows in hash order, images read in, statistics and counts given back."""

import dataclasses
import hashlib
import uuid
from collections.abc import Iterable, Iterator
from typing import Literal

import apache_beam as beam
import numpy as np
import pyarrow as pa
from apache_beam.io.filesystems import FileSystems
from apache_beam.pvalue import TaggedOutput

from beam_jobs import tfrecord
from beam_jobs.encode import encode
from beam_jobs.image_files import BadImageError, read_image
from beam_jobs.plan import Plan
from beam_jobs.prepare import ORDER_COLUMN, REJECTED, ShardKey, arrow_schema
from beam_jobs.progress import Progress
from beam_jobs.rejected import Rejection
from pipeline.data.features import Image
from pipeline.data.schema import Schema

ROWS = "rows"
_ROWS_AT_ONCE = 1 << 14
_RECORDS_AT_ONCE = 1 << 10
_IMAGES_AT_ONCE = 1 << 10  # at 100 KB an image, 100 MB


@dataclasses.dataclass(frozen=True, kw_only=True)
class WrittenShard:
    """`path` is where it lies until the run is published, `file_name` what it is called from then on."""

    split: str
    number: int
    path: str
    file_name: str
    records: int
    bytes: int
    sha256: str


def shard_file_name(name: str, split: str, number: int, shards: int) -> str:
    """As TensorFlow Datasets names shards."""
    return f"{name}-{split}.tfrecord-{number:05d}-of-{shards:05d}"


class WriteShard(beam.DoFn):
    """(split, shard), rows as Arrow IPC → WrittenShard. Outputs aside: (split, ROWS) and REJECTED."""

    def __init__(self, schema: Schema, plan: Plan, *, directory: str, progress: Progress) -> None:
        self._schema = schema
        self._shards = dict(plan.shards)
        self._directory = directory
        self._root = plan.root  # what places of images are told relative to
        self._progress = progress

    def process(
        self, element: tuple[ShardKey, Iterable[bytes]]
    ) -> Iterator[
        WrittenShard
        | TaggedOutput[Literal["rows"], tuple[str, pa.RecordBatch]]
        | TaggedOutput[Literal["rejected"], Rejection]
    ]:
        (split, number), batches = element
        records: list[bytes] = []
        order: list[np.ndarray] = [np.zeros(0, np.uint64)]
        rows_at_once = _IMAGES_AT_ONCE if self._schema.of_kind(Image) else _ROWS_AT_ONCE
        for rows in _regrouped(batches, arrow_schema(self._schema), rows_at_once):
            rows, rejected = self._with_images(rows)
            for rejection in rejected:
                yield TaggedOutput(REJECTED, rejection)
            yield TaggedOutput(ROWS, (split, rows))
            records += encode(rows, self._schema)
            order.append(rows.column(ORDER_COLUMN).to_numpy())
            self._progress.add(written=rows.num_rows)
        yield self._write(split, number, _in_hash_order(records, np.concatenate(order)))

    def _with_images(self, rows: pa.RecordBatch) -> tuple[pa.RecordBatch, list[Rejection]]:
        """`rows` with image paths replaced by the files' bytes, less the rows whose file is no good image."""
        rejected: list[Rejection] = []
        for feature in self._schema.of_kind(Image):
            images, problems = _read_all(rows.column(feature.name).to_pylist(), feature)
            column = rows.schema.get_field_index(feature.name)
            bad = [image is None for image in images]
            rejected += [
                Rejection(
                    source=path.removeprefix(self._root),
                    row=None,
                    column=feature.source_column,
                    reason=reason,
                    raw="",
                )
                for path, reason in problems
            ]
            rows = rows.set_column(column, feature.name, pa.array(images, pa.large_binary()))
            rows = rows.filter(pa.array(np.invert(np.array(bad, bool))))
        return rows, rejected

    def _write(self, split: str, number: int, records: list[bytes]) -> WrittenShard:
        if not FileSystems.exists(self._directory):
            # The launcher is gone, and creating the file would bring back what the next run cleared away.
            raise RuntimeError(f"{self._directory} is gone: its run has ended")
        file_name = shard_file_name(self._schema.name, split, number, self._shards[split])
        # A runner may write a shard twice at once; each attempt has its own file, one is published.
        path = FileSystems.join(self._directory, f"{file_name}.{uuid.uuid4().hex}")
        size, digest = _write_records(path, records)
        return WrittenShard(
            split=split,
            number=number,
            path=path,
            file_name=file_name,
            records=len(records),
            bytes=size,
            sha256=digest,
        )


def _write_records(path: str, records: list[bytes]) -> tuple[int, str]:
    """Size and SHA-256 of the TFRecord file that it writes."""
    size, digest = 0, hashlib.sha256()
    with FileSystems.create(path, compression_type="uncompressed") as file:
        for start in range(0, len(records), _RECORDS_AT_ONCE):
            part = b"".join(tfrecord.frame(records[start : start + _RECORDS_AT_ONCE]))
            file.write(part)
            digest.update(part)
            size += len(part)
    return size, digest.hexdigest()


def _read_all(images: list[dict], feature: Image) -> tuple[list[bytes | None], list[tuple[str, str]]]:
    """Each image's bytes, None where its file is no good image; and those files, with what is wrong."""
    read: list[bytes | None] = []
    problems: list[tuple[str, str]] = []
    for path, data in ((image["path"], image["data"]) for image in images):
        try:
            read.append(read_image(path, feature) if data is None else data)
        except BadImageError as error:
            read.append(None)
            problems.append((path, str(error)))
    return read, problems


def _regrouped(batches: Iterable[bytes], schema: pa.Schema, rows_at_once: int) -> Iterator[pa.RecordBatch]:
    """The rows of `batches` (an empty one marks that the shard exists), in batches of one handy size."""
    read = [pa.ipc.read_record_batch(pa.py_buffer(batch), schema) for batch in batches if batch]
    yield from pa.Table.from_batches(read, schema).combine_chunks().to_batches(max_chunksize=rows_at_once)


def _in_hash_order(records: list[bytes], order: np.ndarray) -> list[bytes]:
    """Sorted by hash, rows of one hash by their bytes, so that the order of arrival leaves no trace."""
    by_hash = np.argsort(order, kind="stable")
    if len(np.unique(order)) == len(order):
        return [records[position] for position in by_hash.tolist()]
    return [record for _, record in sorted(zip(order.tolist(), records, strict=True))]
