"""For each raw format: how numbered rows are written in it, and what may be asked of its source."""

import dataclasses
import json
import pathlib
import types
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import fastavro
import numpy as np
import pyarrow as pa
import pyarrow.parquet

from beam_jobs.sources.source import Origin

NOTE = 'two\nlines, "quoted", für 3 €'


def _name(location: str) -> str:
    return location.rpartition("/")[2]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Sample:
    """Rows are numbered from 0; each holds its number.

    `write` puts rows of these numbers at a path and gives their location. In `write_broken`, the last row but
    one cannot be cut into columns; `why_none_is_broken` says why there is no such row.
    """

    write: Callable[[pathlib.Path, Sequence[int]], str]
    number: Callable[[Mapping[str, Any]], int]  # that a row holds, of its raw cells
    cuts: tuple[Mapping[str, int], ...] = ()  # fields of the source that decide on input splits and batches
    rows: int = 40
    # Of the row of a number in the file at a location.
    origin: Callable[[str, int], Origin] = lambda location, number: Origin(_name(location), number + 1)
    fields: Mapping[str, Any] = dataclasses.field(default_factory=dict)  # of the source, beside options
    gzip: str = ""  # the ending of a file name that says gzip; empty: such files are not read
    is_files: bool = True  # and not a service or a directory of its own kind
    write_broken: Callable[[pathlib.Path, Sequence[int]], str] | None = None
    why_none_is_broken: str = ""


def _lines(path: pathlib.Path, lines: Sequence[bytes]) -> str:
    path.write_bytes(b"".join(line + b"\n" for line in lines))
    return str(path)


def _csv(path: pathlib.Path, numbers: Sequence[int], *, broken: int | None = None) -> str:
    note = NOTE.replace('"', '""')
    rows = [f'{number},"{note}"' if number != broken else f"{number}" for number in numbers]
    return _lines(path, [b"number,note", *(row.encode() for row in rows)])


def _jsonl(path: pathlib.Path, numbers: Sequence[int], *, broken: int | None = None) -> str:
    rows = [json.dumps({"number": number, "at": {"note": NOTE}}) for number in numbers]
    return _lines(path, [row.encode() if number != broken else b"{" for number, row in enumerate(rows)])


def _text(path: pathlib.Path, numbers: Sequence[int]) -> str:
    return _lines(path, [f"{number} für 3 €".encode() for number in numbers])


def _parquet(path: pathlib.Path, numbers: Sequence[int]) -> str:
    rows = [{"number": number, "at": {"note": NOTE}} for number in numbers]
    schema = pa.schema({"number": pa.int64(), "at": pa.struct({"note": pa.string()})})
    pa.parquet.write_table(pa.Table.from_pylist(rows, schema), path, row_group_size=7)
    return str(path)


def _avro(path: pathlib.Path, numbers: Sequence[int], *, broken: int | None = None) -> str:
    at = {"type": "map", "values": ["string", {"type": "map", "values": "string"}]}
    fields = [{"name": "number", "type": "long"}, {"name": "at", "type": at}]
    twice = {"a.b": "one", "a": {"b": "other"}}  # two values at one path
    rows = [{"number": number, "at": {"note": NOTE} if number != broken else twice} for number in numbers]
    with path.open("wb") as file:
        fastavro.writer(file, {"type": "record", "name": "row", "fields": fields}, rows)
    return str(path)


def _images(path: pathlib.Path, numbers: Sequence[int], *, broken: int | None = None) -> str:
    for number in numbers:
        # The folder has the name that the test asks for, because it is the class.
        folder = path / path.name if number != broken else path / path.name / "too deep"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{number:03}.png").write_bytes(b"not read here")
    return str(path)


def _tfrecord(path: pathlib.Path, numbers: Sequence[int], *, broken: int | None = None) -> str:
    import tensorflow as tf

    def example(number: int) -> bytes:
        values = {
            "number": tf.train.Feature(int64_list=tf.train.Int64List(value=[number])),
            "note": tf.train.Feature(bytes_list=tf.train.BytesList(value=[NOTE.encode()])),
        }
        return tf.train.Example(features=tf.train.Features(feature=values)).SerializeToString()

    with tf.io.TFRecordWriter(str(path)) as writer:
        for number in numbers:
            writer.write(example(number) if number != broken else b"no Example")
    return str(path)


def _tfds(path: pathlib.Path, numbers: Sequence[int]) -> str:
    import tensorflow_datasets as tfds

    directory = path / "sample" / "1.0.0"
    directory.mkdir(parents=True)
    template = tfds.core.ShardedFileTemplate(
        dataset_name="sample", data_dir=directory, filetype_suffix="tfrecord"
    )
    shard = directory / "sample-train.tfrecord-00000-of-00001"
    _tfrecord(shard, numbers)
    size = shard.stat().st_size
    split = tfds.core.SplitInfo(
        name="train", shard_lengths=[len(numbers)], num_bytes=size, filename_template=template
    )
    features = tfds.features.FeaturesDict({"number": np.int64, "note": tfds.features.Text()})
    tfds.folder_dataset.write_metadata(
        data_dir=directory, features=features, split_infos=[split], filename_template=template
    )
    return f"tfds:{directory}"


class FakeBigQuery:
    """The Storage Read API's client: two streams of ten rows, in responses of three rows each."""

    TABLE = "projects/p/datasets/d/tables/t"
    ROWS = tuple({"number": number, "at": {"note": NOTE}} for number in range(10))
    IN_FIRST = 7

    def create_read_session(self, *, parent: str, read_session: dict, max_stream_count: int) -> object:
        assert (parent, max_stream_count > 1) == ("projects/p", True)
        if read_session != {"table": self.TABLE, "data_format": 2}:
            raise PermissionError("403 no such table, or not yours")
        streams = [types.SimpleNamespace(name=f"{parent}/sessions/s/streams/{number}") for number in range(2)]
        return types.SimpleNamespace(streams=streams, estimated_total_bytes_scanned=1000)

    def read_rows(self, name: str) -> list[object]:
        rows = self.ROWS[: self.IN_FIRST] if name.endswith("/0") else self.ROWS[self.IN_FIRST :]
        batches = pa.Table.from_pylist(list(rows)).to_batches(max_chunksize=3)
        # The first response alone tells the schema.
        schemas = [batches[0].schema.serialize(), *[b""] * len(batches)]
        return [
            types.SimpleNamespace(
                arrow_schema=types.SimpleNamespace(serialized_schema=schema),
                arrow_record_batch=types.SimpleNamespace(serialized_record_batch=batch.serialize()),
            )
            for schema, batch in zip(schemas, batches, strict=False)
        ]


def _bigquery_origin(location: str, number: int) -> Origin:
    stream, first = (0, 0) if number < FakeBigQuery.IN_FIRST else (1, FakeBigQuery.IN_FIRST)
    return Origin(f"{location} stream {stream}", number - first + 1)


def _broken(write: Callable[..., str]) -> Callable[[pathlib.Path, Sequence[int]], str]:
    return lambda path, numbers: write(path, numbers, broken=numbers[-2])


SAMPLES: Mapping[str, Sample] = {
    "csv": Sample(
        write=_csv,
        number=lambda row: int(row["number"]),
        cuts=({"split_bytes": 1}, {"block_bytes": 64}, {"split_bytes": 200, "block_bytes": 64}),
        origin=lambda location, number: Origin(_name(location), 2 + 2 * number),  # the note has two lines
        gzip=".csv.gz",
        write_broken=_broken(_csv),
    ),
    "text": Sample(
        write=_text,
        number=lambda row: int(row["text"].split()[0]),
        cuts=({"split_bytes": 1}, {"batch_rows": 3}, {"split_bytes": 100, "batch_rows": 2}),
        gzip=".txt.gz",
        why_none_is_broken="every line is a row",
    ),
    "avro": Sample(
        write=_avro,
        number=lambda row: row["number"],
        cuts=({"batch_rows": 7},),
        write_broken=_broken(_avro),
    ),
    "bigquery": Sample(
        write=lambda path, numbers: "bigquery:p.d.t",
        number=lambda row: row["number"],
        rows=len(FakeBigQuery.ROWS),
        origin=_bigquery_origin,
        fields={"client": FakeBigQuery},
        is_files=False,
        why_none_is_broken="the service has typed rows only",
    ),
    "images": Sample(
        write=_images,
        number=lambda row: int(pathlib.PurePath(row["image"]).stem),
        cuts=({"files_in_split": 1}, {"files_in_split": 7}),
        origin=lambda location, number: Origin(f"{_name(location)}/{number:03}.png", None),
        write_broken=_broken(_images),
    ),
    "jsonl": Sample(
        write=_jsonl,
        number=lambda row: row["number"],
        cuts=({"split_bytes": 1}, {"batch_rows": 3}, {"split_bytes": 100, "batch_rows": 2}),
        gzip=".jsonl.gz",
        write_broken=_broken(_jsonl),
    ),
    "parquet": Sample(
        write=_parquet,
        number=lambda row: row["number"],
        cuts=({"split_bytes": 100}, {"batch_rows": 3}, {"split_bytes": 1000, "batch_rows": 5}),
        why_none_is_broken="a page that does not decode breaks the file",
    ),
    "tfds": Sample(
        write=_tfds,
        number=lambda row: row["number"],
        cuts=({"examples_in_split": 4, "batch_rows": 3},),
        rows=10,
        origin=lambda location, number: Origin(f"{location}@train", number + 1),
        is_files=False,
        why_none_is_broken="TFDS reads with tf.data, which ends at a damaged record",
    ),
    "tfrecord": Sample(
        write=_tfrecord,
        number=lambda row: row["number"][0],
        cuts=({"batch_rows": 7},),
        gzip=".tfrecord.gz",
        write_broken=_broken(_tfrecord),
    ),
}
