"""TFRecords of Examples that TensorFlow wrote, whole or broken; and one shown as its raw row."""

import datetime
import gzip
import pathlib

import google_crc32c
import numpy as np
import pytest
import tensorflow as tf

from beam_jobs.sources.source import RawRows
from beam_jobs.sources.tfrecord import ExampleFiles, example_text
from pipeline.base.errors import InputError
from pipeline.data.schema.feature_types import Categorical, Datetime, Image, Label, Numeric, Tokens
from pipeline.data.schema.schema import Schema
from tests.shared import raw_rows
from tests.shared.moments import microseconds
from tests.shared.tiny_dataset import serialize


def example(**features: list) -> bytes:
    kinds = {int: "int64_list", float: "float_list", bytes: "bytes_list"}
    entries = {
        name: tf.train.Feature(**{kinds[type(values[0])]: {"value": values}})
        if values
        else tf.train.Feature()
        for name, values in features.items()
    }
    return tf.train.Example(features=tf.train.Features(feature=entries)).SerializeToString()


def write(path: pathlib.Path, *records: bytes, compression: str = "") -> pathlib.Path:
    with tf.io.TFRecordWriter(str(path), options=compression) as writer:
        for record in records:
            writer.write(record)
    return path


def read(path: pathlib.Path) -> list[RawRows]:
    return raw_rows.read(ExampleFiles(), path)


@pytest.mark.parametrize("compression", ["", "GZIP", "ZLIB"])
def test_every_key_is_a_column_of_lists(tmp_path: pathlib.Path, compression: str):
    rows = [example(a=[1, -2], b=[0.5], c=[b"\xff"]), example(a=[3], d=[]), example()]
    [raw] = read(write(tmp_path / "data", *rows, compression=compression))
    assert raw.columns.to_pydict() == {
        "a": [[1, -2], [3], None],
        "b": [[0.5], None, None],
        "c": [[b"\xff"], None, None],
    }
    assert raw.numbers.tolist() == [1, 2, 3]


def test_a_key_that_changes_its_type_becomes_text(tmp_path: pathlib.Path):
    [raw] = read(write(tmp_path / "data", example(a=[1]), example(a=[2.0]), example(a=[b"x"])))
    assert raw.column("a").to_pylist() == [[b"1"], [b"2"], [b"x"]]


def test_a_flipped_byte_costs_one_row(tmp_path: pathlib.Path):
    path = write(tmp_path / "data", example(a=[1]), example(a=[2]), example(a=[3]))
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    [raw] = read(path)
    assert raw.column("a").to_pylist() == [[1], [3]]
    assert [(rejection.row, rejection.reason) for rejection in raw.rejected] == [
        (2, "checksum of the record does not match")
    ]


SEQUENCE = tf.train.SequenceExample(
    feature_lists={"feature_list": {"a": {"feature": [{"int64_list": {"value": [1]}}]}}}
).SerializeToString()


@pytest.mark.parametrize(
    ("record", "message"),
    [
        (SEQUENCE, "a SequenceExample"),
        (b"\x0a" + bytes([len(example(a=[1]))]) + example(a=[1]), "not a tf.train.Example"),
        (b"plain text", "not a tf.train.Example"),
    ],
)
def test_other_messages_are_refused(tmp_path: pathlib.Path, record: bytes, message: str):
    with pytest.raises(InputError, match=message):
        read(write(tmp_path / "data", record))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda data: data[:-1], "byte 30: received the end of the file within a record"),
        (lambda data: data[:33], "byte 30: received the end of the file within a record"),
        (lambda data: b"\0" + data, "byte 0: received a length whose checksum does not match"),
        (lambda data: gzip.compress(data)[:-9], "does not decompress"),
    ],
)
def test_a_file_that_breaks_off_is_refused_with_the_place(tmp_path: pathlib.Path, change, message: str):
    path = write(tmp_path / "data", example(a=[1]), example(a=[2]))
    path.write_bytes(change(path.read_bytes()))
    with pytest.raises(InputError, match=message):
        read(path)


@pytest.mark.parametrize("length", [1 << 60, 3 << 30])
def test_a_length_beyond_what_a_worker_holds_is_refused_unread(tmp_path: pathlib.Path, length: int):
    header = np.uint64(length).tobytes()
    crc = google_crc32c.value(header)
    masked = ((crc >> 15 | crc << 17) + 0xA282EAD8) % (1 << 32)  # as TFRecords mask a checksum
    with gzip.open(tmp_path / "data", "wb") as file:
        file.write(header + np.uint32(masked).tobytes() + bytes(1000))
    with pytest.raises(InputError, match=f"a record of {length:,} bytes"):
        read(tmp_path / "data")


# A record is shown as its raw row was, without what must not leave the records.
SCHEMA = Schema(
    name="s",
    features=(
        Numeric(name="lon", offset=-73.9),
        Datetime(name="day"),
        Categorical(name="city"),
        Categorical(name="name", statistics="none"),
        Image(name="image"),
        Tokens(name="tokens", length=2, vocabulary_size=9),
        Label(name="y", classes=("no", "yes")),
    ),
)
ROW = {
    "lon": 0.5,
    "day": microseconds(datetime.datetime(2024, 2, 29, 11, tzinfo=datetime.UTC)),
    "city": "Zürich",
    "name": "Anna",
    "image": b"\x89PNG",
    "tokens": [3, 4],
    "y": 1,
}


def test_a_record_is_shown_as_the_raw_row():
    assert example_text(serialize(SCHEMA, ROW), SCHEMA) == (
        "lon=-73.4, day=2024-02-29 11:00:00, city='Zürich', image=4 bytes, tokens=3 4, y='yes'"
    )


def test_long_values_are_cut_and_what_is_no_example_is_not_shown():
    text = example_text(serialize(SCHEMA, ROW | {"city": "x" * 1000}), SCHEMA)
    assert "city='" + "x" * 38 + "…, image" in text
    assert example_text(b"no example", SCHEMA) == ""
