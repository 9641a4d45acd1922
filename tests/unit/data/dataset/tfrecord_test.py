"""TFRecord files and blocks as TensorFlow reads and writes them; and what is left of damaged ones."""

import io
import pathlib

import numpy as np
import pytest
import tensorflow as tf

from pipeline.data.dataset import blocks, tfrecord
from pipeline.data.dataset.tfrecord import FRAME_BYTES, HEADER_BYTES, DamagedFrame, Record, read_records
from pipeline.data.schema.feature_types import Tokens
from pipeline.data.schema.schema import Schema

PAYLOADS = [b"first", b"", b"third" * 1000, b"\0" * 100, b"last"]
OFFSETS = [0, 21, 37, 5053, 5169]


@pytest.fixture
def content(tmp_path: pathlib.Path) -> bytearray:
    with tf.io.TFRecordWriter(str(tmp_path / "file")) as writer:
        for payload in PAYLOADS:
            writer.write(payload)
    return bytearray((tmp_path / "file").read_bytes())


def read(content: bytes) -> list[Record | DamagedFrame]:
    return list(read_records(io.BytesIO(content), len(content)))


def test_same_bytes_as_tensorflow_writes(content: bytearray):
    assert tfrecord.frame(PAYLOADS) == content


def test_a_frame_that_the_index_tells_of_is_checked(content: bytearray):
    first = bytes(content[: OFFSETS[1]])
    assert tfrecord.problem(first, length=5) == ""
    assert tfrecord.problem(first[:-1], length=5) == "the file ends 1 bytes too early"
    assert tfrecord.problem(first, length=4).startswith("its length is not 4")
    assert tfrecord.problem(first[:-1] + b"?", length=5) == "the checksum of its 5 bytes is wrong"


def test_what_tensorflow_wrote(content: bytearray):
    assert [(r.ordinal, r.offset, r.payload) for r in read(content)] == list(
        zip(range(5), OFFSETS, PAYLOADS, strict=True)
    )


def test_a_flipped_byte_costs_its_record_only(content: bytearray):
    content[OFFSETS[2] + 500] ^= 1
    records = read(content)
    assert records[2] == DamagedFrame(ordinal=2, offset=37, reason="the checksum of its 5,000 bytes is wrong")
    assert [item.payload for item in records if isinstance(item, Record)] == [
        b"first",
        b"",
        PAYLOADS[3],
        b"last",
    ]


@pytest.mark.parametrize("byte", [0, 5, 8])
def test_behind_a_damaged_length_the_next_record_is_found(content: bytearray, byte: int):
    content[OFFSETS[2] + byte] ^= 1
    records = read(content)
    assert (records[2].ordinal, records[2].offset) == (2, 37)
    assert records[2].reason.endswith("5,016 bytes cannot be read")
    assert [item.payload for item in records if isinstance(item, Record)] == [
        b"first",
        b"",
        PAYLOADS[3],
        b"last",
    ]


@pytest.mark.parametrize("cut", [1, 10, 16])
def test_a_file_that_ends_too_early(content: bytearray, cut: int):
    *whole, last = read(content[:-cut])
    assert [record.payload for record in whole] == PAYLOADS[:-1]
    assert (last.ordinal, last.offset) == (4, 5169)
    assert last.reason.startswith("the file ends inside the record")


@pytest.mark.parametrize("length", [1, 2, 7, 64, 127, 128, 513, 9_001, 300_001])
def test_blocks_and_their_rows_start_at_multiples_of_the_width(length: int):
    schema = Schema(name="s", features=(Tokens(name="tokens", length=length, vocabulary_size=100),))
    frame, width = blocks.frame_of_schema(schema), 2 * length
    assert (HEADER_BYTES + frame.rows_at) % width == 0
    assert (frame.size + FRAME_BYTES) % width == 0


@pytest.mark.parametrize("length", [1, 513, 300_001])
def test_a_framed_block_is_an_example_with_its_rows_where_the_frame_says(length: int):
    schema = Schema(name="s", features=(Tokens(name="tokens", length=length, vocabulary_size=100),))
    frame = blocks.frame_of_schema(schema)
    rows = np.arange(frame.payload, dtype=np.uint8).tobytes()
    record = frame.head + rows + frame.tail
    features = tf.train.Example.FromString(record).features.feature
    assert features[blocks.ROWS].bytes_list.value[0] == rows == record[frame.rows_at :][: frame.payload]
    assert len(tfrecord.frame([record])) == frame.size + FRAME_BYTES
