"""Writes small published datasets for tests, with TensorFlow's own writer instead of ours."""

import hashlib
import math
import pathlib
from collections.abc import Mapping, Sequence

import tensorflow as tf

from pipeline.data import manifest as manifest_lib
from pipeline.data import schema as schema_lib
from pipeline.data import statistics as statistics_lib
from pipeline.data.feature import Feature
from pipeline.data.manifest import Dataset, File, Manifest, Shard
from pipeline.data.schema import Schema
from pipeline.data.statistics import FeatureStatistics, NumericSummary, SplitStatistics, ValueCounts

Row = Mapping[str, object]


def write_dataset(
    directory: pathlib.Path, schema: Schema, splits: Mapping[str, Sequence[Row]], *, shards: int = 2
) -> Dataset:
    """Publishes `splits` under `directory` and opens the result."""
    directory.mkdir(parents=True)
    schema_lib.save(schema, directory / schema_lib.FILE_NAME)
    statistics = {split: describe(schema, rows) for split, rows in splits.items()}
    (directory / manifest_lib.STATISTICS_FILE_NAME).write_bytes(statistics_lib.dumps(statistics))
    names = (schema_lib.FILE_NAME, manifest_lib.STATISTICS_FILE_NAME)
    manifest = Manifest(
        name=schema.name,
        version="1.0.0",
        layout="rows",
        schema_fingerprint=schema.fingerprint,
        plan_fingerprint="none",
        rows_read=sum(map(len, splits.values())),
        rows_rejected=0,
        splits={
            split: tuple(_write_shard(directory, schema, split, rows, i, shards) for i in range(shards))
            for split, rows in splits.items()
        },
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


def _write_shard(
    directory: pathlib.Path, schema: Schema, split: str, rows: Sequence[Row], index: int, shards: int
) -> Shard:
    name = f"{schema.name}-{split}.tfrecord-{index:05d}-of-{shards:05d}"
    mine = rows[index::shards]
    with tf.io.TFRecordWriter(str(directory / name)) as writer:
        for row in mine:
            writer.write(serialize(schema, row))
    return Shard(path=name, records=len(mine), rows=len(mine), **_size_and_digest(directory / name))


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
        return FeatureStatistics(**base, numeric=_summarize(present))
    seen = sorted({str(v) for v in present}, key=lambda v: (-[str(p) for p in present].count(v), v))
    tally = tuple((v, [str(p) for p in present].count(v)) for v in seen)
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
    )
