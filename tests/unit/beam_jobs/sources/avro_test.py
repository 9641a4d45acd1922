"""Blocks of every codec, as fastavro gives them, and none that a worker cannot hold."""

import datetime
import io
import json
import pathlib

import fastavro
import pytest

from beam_jobs.sources import avro
from beam_jobs.sources.avro import AvroFiles
from pipeline.base.errors import InputError
from tests.shared import raw_rows
from tests.shared.avro import SYNC, avro_header, zigzag

CODECS = ("null", "deflate", "bzip2", "xz", "snappy", "zstandard", "lz4")
FIELDS = [{"name": "text", "type": "string"}, {"name": "number", "type": ["null", "long"]}]
ROWS = [{"text": "Zürich " * number, "number": number if number % 3 else None} for number in range(200)]


def container(rows: list[dict], codec: str) -> bytes:
    file = io.BytesIO()
    fastavro.writer(
        file, {"type": "record", "name": "row", "fields": FIELDS}, rows, codec, sync_interval=2000
    )
    return file.getvalue()


def read(path: pathlib.Path, data: bytes) -> list[dict]:
    path.write_bytes(data)
    return raw_rows.cells(AvroFiles(), path)


@pytest.mark.parametrize("codec", CODECS)
def test_blocks_of_every_codec_hold_the_records_that_were_written(tmp_path: pathlib.Path, codec: str):
    rows = read(tmp_path / "data.avro", container(ROWS, codec))
    assert [(row["text"].decode() if isinstance(row["text"], bytes) else row["text"]) for row in rows] == [
        row["text"] for row in ROWS
    ]
    assert [row["number"] for row in rows] == [row["number"] for row in ROWS]


@pytest.mark.parametrize("codec", CODECS)
def test_a_block_longer_than_a_worker_can_hold_is_refused(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, codec: str
):
    monkeypatch.setattr(avro, "_BLOCK_BYTES", 4_000)
    data = container([{"text": "x" * 4_000, "number": 1}], codec)
    with pytest.raises(InputError, match=r"data\.avro, byte \d+: received a block of more than"):
        read(tmp_path / "data.avro", data)


@pytest.mark.parametrize("codec", CODECS)
def test_a_file_that_ends_within_a_block_is_refused(tmp_path: pathlib.Path, codec: str):
    data = container(ROWS, codec)
    for end in (len(data) - 1, len(data) - 17, len(data) // 2):
        with pytest.raises(InputError, match="does not read as Avro"):
            read(tmp_path / "data.avro", data[:end])


def block(count: int, length: int) -> bytes:
    """A block of these numbers of records and bytes, which has one byte."""
    numbers = io.BytesIO()
    for number in (count, length):
        fastavro.schemaless_writer(numbers, "long", number)
    return numbers.getvalue() + b"\2"


@pytest.mark.parametrize(
    "damaged", [block(300, 1)[:1], block(-5, 1), block(1 << 60, 1), block(1, 1 << 60), block(1, -9)]
)
def test_a_damaged_head_of_a_block_is_refused(tmp_path: pathlib.Path, damaged: bytes):
    data = container(ROWS, "null")
    sync = data[-16:]
    tail = sync if len(damaged) > 1 else b""
    with pytest.raises(InputError, match="does not read as Avro"):
        read(tmp_path / "data.avro", data + damaged + tail)


@pytest.mark.parametrize(
    ("logical", "good", "expected", "never"),
    [
        ("date", 19_000, datetime.date(2022, 1, 8), 1 << 30),
        ("timestamp-millis", 86_400_000, datetime.datetime(1970, 1, 2, tzinfo=datetime.UTC), 1 << 61),
        ("timestamp-micros", -1, datetime.datetime(1969, 12, 31, 23, 59, 59, 999_999, datetime.UTC), 1 << 61),
        ("local-timestamp-millis", 86_400_000, datetime.datetime(1970, 1, 2), -(1 << 61)),
    ],
)
def test_a_date_that_no_calendar_holds_rejects_its_row(tmp_path, logical, good, expected, never):
    type_ = "int" if logical == "date" else "long"
    schema = {"type": "record", "name": "row", "fields": [{"name": "seen", "type": type_}]}
    records = io.BytesIO()
    for count in (good, never, good):
        fastavro.schemaless_writer(records, schema, {"seen": count})
    schema["fields"][0]["type"] = {"type": type_, "logicalType": logical}
    data = records.getvalue()
    content = avro_header(json.dumps(schema)) + zigzag(3) + zigzag(len(data)) + data + SYNC
    (tmp_path / "data.avro").write_bytes(content)
    [raw] = raw_rows.read(AvroFiles(), tmp_path / "data.avro")
    assert raw.columns["seen"].to_pylist() == [expected, expected]
    assert raw.numbers.tolist() == [1, 3]
    [rejected] = raw.rejected
    assert (rejected.row, rejected.reason, rejected.raw) == (
        2,
        "no such date or time",
        f'{{"seen": {never}}}',
    )
