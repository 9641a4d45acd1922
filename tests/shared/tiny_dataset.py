"""Writes small published datasets for tests, with TensorFlow's own writer instead of ours."""

import collections
import hashlib
import itertools
import math
import pathlib
import zlib
from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa
import tensorflow as tf

from beam_jobs.cells.typed import arrow_schema
from beam_jobs.conversion.records import encode_blocks
from pipeline.data.dataset import manifest as manifest_lib
from pipeline.data.dataset import shards as shards_lib
from pipeline.data.dataset import statistics as statistics_lib
from pipeline.data.dataset.manifest import Dataset, File, Manifest, Shard
from pipeline.data.dataset.row_hashes import content_hashes
from pipeline.data.dataset.shards import Index
from pipeline.data.dataset.statistics import FeatureStatistics, NumericSummary, SplitStatistics, ValueCounts
from pipeline.data.dataset.tfrecord import FRAME_BYTES
from pipeline.data.schema import schema as schema_lib
from pipeline.data.schema.feature import Feature
from pipeline.data.schema.schema import Schema
from pipeline.data.statistics import encoding
from tests.shared import measuring

Row = Mapping[str, object]


def write_dataset(
    directory: pathlib.Path,
    schema: Schema,
    splits: Mapping[str, Sequence[Row]],
    *,
    shards: int = 2,
    layout: str = "rows",
    accumulators: bool = False,
) -> Dataset:
    """Publishes `splits` under `directory` and opens the result.

    With `accumulators` it is measured as the converter does, so that it can be measured with others.
    """
    directory.mkdir(parents=True)
    schema_lib.save(schema, directory / schema_lib.FILE_NAME)
    if accumulators:
        gathered = {split: _gathered(schema, rows) for split, rows in splits.items()}
        content = encoding.dumps(gathered, schema)
        (directory / encoding.FILE_NAME).write_bytes(content)
        statistics = {split: encoding.statistics_of(each, schema) for split, each in gathered.items()}
    else:
        statistics = {split: describe(schema, rows) for split, rows in splits.items() if rows}
    (directory / manifest_lib.STATISTICS_FILE_NAME).write_bytes(statistics_lib.dumps(statistics))
    written = {
        split: tuple(
            _write_shard(
                directory, f"{schema.name}-{split}.tfrecord-{i:05d}-of-{shards:05d}", part, layout, schema
            )
            for i, part in enumerate(_parts(rows, shards))
        )
        for split, rows in splits.items()
    }
    indexes = [shards_lib.file_name(shard.path) for each in written.values() for shard in each]
    measured = (encoding.FILE_NAME,) if accumulators else ()
    names = (schema_lib.FILE_NAME, manifest_lib.STATISTICS_FILE_NAME, *measured, *indexes)
    manifest = Manifest(
        name=schema.name,
        version="1.0.0",
        layout=layout,
        schema_fingerprint=schema.fingerprint,
        plan_fingerprint="none",
        rows_read=sum(map(len, splits.values())),
        rows_rejected=0,
        splits=written,
        files=tuple(File(path=name, **_size_and_digest(directory / name)) for name in names),
    )
    (directory / manifest_lib.FILE_NAME).write_text(manifest_lib.dumps(manifest))
    return manifest_lib.open_dataset(directory)


def describe(schema: Schema, rows: Sequence[Row]) -> SplitStatistics:
    features = {f.name: _describe(f, [row[f.name] for row in rows]) for f in schema.features}
    return SplitStatistics(examples=len(rows), features=features)


def serialize(schema: Schema, row: Row) -> bytes:
    features = {f.name: _feature(f, row[f.name]) for f in schema.features if f.name in row}
    return tf.train.Example(features=tf.train.Features(feature=features)).SerializeToString()


def _parts(rows: Sequence[Row], shards: int) -> list[Sequence[Row]]:
    bounds = [len(rows) * i // shards for i in range(shards + 1)]
    return [rows[first:last] for first, last in itertools.pairwise(bounds)]


def _write_shard(
    directory: pathlib.Path, name: str, rows: Sequence[Row], layout: str, schema: Schema
) -> Shard:
    records = _blocks(rows, schema) if layout == "blocks" else [serialize(schema, row) for row in rows]
    with tf.io.TFRecordWriter(str(directory / name)) as writer:
        for record in records:
            writer.write(record)
    (directory / shards_lib.file_name(name)).write_bytes(shards_lib.dumps(_index(records)))
    return Shard(path=name, records=len(records), rows=len(rows), **_size_and_digest(directory / name))


def _blocks(rows: Sequence[Row], schema: Schema) -> list[bytes]:
    """Blocks are no format of TensorFlow's, so these are written by the converter's own encoder."""
    batch = _typed(schema, rows)
    return [record for records in encode_blocks([batch], schema) for record in records.to_pylist()]


def _gathered(schema: Schema, rows: Sequence[Row]) -> bytes:
    return encoding.dumps_accumulator(measuring.gathered(schema, _typed(schema, rows)))


def _typed(schema: Schema, rows: Sequence[Row]) -> pa.RecordBatch:
    """The rows in the place of a hash of theirs, as the converter has them."""
    orders = [zlib.crc32(repr(sorted(row.items())).encode()) for row in rows]
    columns = [{"": order, **row} for order, row in zip(orders, rows, strict=True)]
    return pa.RecordBatch.from_pylist(columns, schema=arrow_schema(schema))


def _index(records: Sequence[bytes]) -> Index:
    lengths = np.array([len(record) for record in records], np.int64)
    ends = np.cumsum(lengths + FRAME_BYTES)
    return Index(offsets=ends - lengths - FRAME_BYTES, lengths=lengths, hashes=content_hashes(records))


def _size_and_digest(path: pathlib.Path) -> dict:
    data = path.read_bytes()
    return {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}


def _feature(feature: Feature, value: object) -> tf.train.Feature:
    values = list(value) if isinstance(value, list | tuple) else [value]
    if feature.wire == "bytes":
        encoded = [v.encode() if isinstance(v, str) else v for v in values]
        return tf.train.Feature(bytes_list=tf.train.BytesList(value=encoded))
    if feature.wire == "int64":
        return tf.train.Feature(int64_list=tf.train.Int64List(value=values))
    return tf.train.Feature(float_list=tf.train.FloatList(value=values))


def _describe(feature: Feature, values: Sequence) -> FeatureStatistics:
    present = [v for v in values if v != feature.fill and v == v]
    counts = {"present": len(present), "missing": len(values) - len(present)}
    base = {"name": feature.name, "dtype": feature.dtype, **counts}
    if feature.wire == "float":
        numbers = [number for value in present for number in np.ravel(value).tolist()]
        return FeatureStatistics(**base, numeric=_summarize(numbers))
    classes = getattr(feature, "classes", ())
    counts_of_values = collections.Counter(classes[v] if classes else str(v) for v in present)
    tally = tuple(sorted(counts_of_values.items(), key=lambda item: (-item[1], item[0])))
    return FeatureStatistics(**base, values=ValueCounts(distinct=len(tally), values=tally))


def _summarize(values: Sequence[float]) -> NumericSummary:
    ordered, n = sorted(values), len(values)
    mean = math.fsum(values) / n
    return NumericSummary(
        minimum=ordered[0],
        maximum=ordered[-1],
        mean=mean,
        std=math.sqrt(math.fsum((v - mean) ** 2 for v in values) / n),
        zeros=ordered.count(0.0),
        quantiles=tuple(ordered[round(i * (n - 1) / 4)] for i in range(5)),
        distribution=tuple(ordered[round(i * (n - 1) / 8)] for i in range(9)),
    )
