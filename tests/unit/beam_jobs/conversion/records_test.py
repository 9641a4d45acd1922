"""Encoded records and blocks, against TensorFlow and numpy."""

import math
import tracemalloc

import numpy as np
import pyarrow as pa
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from beam_jobs.cells.typed import arrow_schema
from beam_jobs.conversion.records import encode, encode_blocks, encode_rows
from pipeline.base.errors import InputError
from pipeline.data.dataset import blocks, tfrecord
from pipeline.data.schema.feature_types import Categorical, Image, Label, Numeric, Tensor, Text, Tokens
from pipeline.data.schema.schema import Schema

SCHEMA = Schema(
    name="every_kind",
    features=(
        Numeric(name="weight", missing="mark"),
        Numeric(name="count", number="int64", missing="default", default=-1),
        Categorical(name="Ärger", missing="mark"),
        Text(name="essay"),
        Image(name="image"),
        Tokens(name="tokens", length=3, vocabulary_size=(1 << 31) - 2),
        Tensor(name="matrix", dimensions=(2, 2)),
    ),
)

int64s = st.integers(-(1 << 63), (1 << 63) - 1)
floats = st.floats(width=32)
rows = st.lists(
    st.fixed_dictionaries(
        {
            "weight": st.none() | floats,
            "count": st.none() | int64s,
            "Ärger": st.none() | st.text(),
            "essay": st.text(max_size=300),
            "image": st.text(),
            "tokens": st.lists(int64s, min_size=3, max_size=3),
            "matrix": st.lists(floats, min_size=4, max_size=4),
        }
    ),
    max_size=6,
)


def to_batch(values: list[dict]) -> pa.RecordBatch:
    schema = arrow_schema(SCHEMA)
    # By the time that rows are encoded, the files of images have been read.
    schema = schema.set(schema.get_field_index("image"), pa.field("image", pa.large_binary()))
    rows = [{"": 0, **row, "image": row["image"].encode()} for row in values]
    return pa.RecordBatch.from_pylist(rows, schema=schema)


def read_with_tensorflow(record: bytes) -> dict[str, list]:
    example = tf.train.Example.FromString(record)
    return {
        name: list(getattr(feature, feature.WhichOneof("kind")).value)
        for name, feature in example.features.feature.items()
    }


def same(received: list, expected: list) -> bool:
    return all(a == b or (a != a and b != b) for a, b in zip(received, expected, strict=True))


@given(rows)
def test_tensorflow_reads_back_what_was_encoded(values: list[dict]):
    for record, row in zip(encode(to_batch(values), SCHEMA).to_pylist(), values, strict=True):
        read = read_with_tensorflow(record)
        assert same(read["weight"], [math.nan if row["weight"] is None else row["weight"]])
        assert read["count"] == [-1 if row["count"] is None else row["count"]]
        assert read["Ärger"] == [(row["Ärger"] or "").encode()]
        assert read["essay"] == [row["essay"].encode()]
        assert read["image"] == [row["image"].encode()]
        assert read["tokens"] == row["tokens"]
        assert same(read["matrix"], row["matrix"])


@given(rows.filter(bool))
@settings(max_examples=20)
def test_every_feature_is_there_so_that_shapes_are_fixed(values: list[dict]):
    spec = {f.name: tf.io.FixedLenFeature(f.shape, f.dtype) for f in SCHEMA.features}
    parsed = tf.io.parse_example(encode(to_batch(values), SCHEMA).to_pylist(), spec)
    assert parsed["matrix"].shape == (len(values), 2, 2)


def test_features_stand_in_the_order_of_their_names_in_utf8():
    row = {"weight": 1, "count": 2, "Ärger": "a", "essay": "b", "image": "c", "tokens": [1, 2, 3]}
    [record] = encode(to_batch([{**row, "matrix": [1, 2, 3, 4]}]), SCHEMA).to_pylist()
    names = sorted((f.name.encode() for f in SCHEMA.features), key=record.index)
    assert names == [b"count", b"essay", b"image", b"matrix", b"tokens", b"weight", "Ärger".encode()]


@pytest.mark.parametrize("value", [0.1, 1e-45, 3.4028234e38, -0.0])
def test_floats_are_rounded_to_float32_once(value: float):
    schema = Schema(name="one", features=(Numeric(name="x"),))
    batch = pa.RecordBatch.from_pylist([{"": 0, "x": value}], schema=arrow_schema(schema))
    [record] = encode(batch, schema).to_pylist()
    assert read_with_tensorflow(record)["x"] == [np.float32(value)]


def test_encoding_long_lists_takes_no_memory_for_all_of_them():
    schema = Schema(name="s", features=(Tensor(name="v", dimensions=(512,), number="int64"),))
    lists = pa.FixedSizeListArray.from_arrays(pa.array(np.arange(1 << 20)), 512)
    order = pa.array(np.zeros(len(lists), np.uint64))
    rows = pa.record_batch([order, lists], schema=arrow_schema(schema))
    whole = encode(rows, schema).to_pylist()
    tracemalloc.start()
    records = [record for some in encode_rows([rows], schema) for record in some.to_pylist()]
    assert tracemalloc.get_traced_memory()[1] < 4 * sum(map(len, records))
    tracemalloc.stop()
    assert records == whole


# Blocks of rows, read back with numpy and with TensorFlow.
OF_BLOCKS = Schema(
    name="every_fixed_kind",
    features=(
        Numeric(name="weight", missing="mark"),
        Numeric(name="count", number="int64", missing="default", default=-1),
        Categorical(name="city", vocabulary=("Bern", "Rome"), missing="mark"),
        Categorical(name="color", vocabulary=("red", "blue"), missing="default", default="blue"),
        Categorical(name="digit", encoding="integer", size=10),
        Tokens(name="tokens", length=3, vocabulary_size=100),
        Tensor(name="matrix", dimensions=(2, 2)),
        Label(name="label", classes=("no", "yes")),
    ),
)
FULL = {
    "": 0, "weight": 0.5, "count": 1 << 40, "city": "Rome", "color": "red", "digit": 7,
    "tokens": [1, 2, 99], "matrix": [1, 2, 3, 4], "label": 1,
}  # fmt: skip
EMPTY = {**FULL, "weight": None, "count": None, "city": None, "color": None}
STRANGE = {**FULL, "city": "Oslo", "color": "green", "digit": 10}


def examples(rows: list[dict], *, batches: int = 1) -> list[bytes]:
    batch = pa.RecordBatch.from_pylist(rows, schema=arrow_schema(OF_BLOCKS))
    size = -(-len(rows) // batches)
    parts = [batch.slice(start, size) for start in range(0, len(rows), size)]
    return [record for records in encode_blocks(parts, OF_BLOCKS) for record in records.to_pylist()]


def read(records: list[bytes]) -> np.ndarray:
    """The rows of blocks, by TensorFlow's parser and numpy."""
    spec = {
        name: tf.io.FixedLenFeature([], kind) for name, kind in (("rows", tf.string), ("count", tf.int64))
    }
    parsed = tf.io.parse_example(records, spec)
    pairs = zip(parsed["rows"].numpy(), parsed["count"].numpy(), strict=True)
    return np.concatenate([np.frombuffer(rows, blocks.row_dtype(OF_BLOCKS))[:count] for rows, count in pairs])


def test_values_are_as_they_were():
    full, empty, strange = read(examples([FULL, EMPTY, STRANGE]))
    assert (full["weight"], full["count"], full["digit"], full["label"]) == (0.5, 1 << 40, 7, 1)
    assert full["tokens"].tolist() == [1, 2, 99]
    assert full["matrix"].tolist() == [[1, 2], [3, 4]]
    assert (full["city"], full["color"]) == (1, 0)
    assert np.isnan(empty["weight"])
    assert (empty["count"], empty["city"], empty["color"]) == (-1, blocks.MISSING, 1)
    assert [strange[name] for name in ("city", "color", "digit")] == [blocks.UNKNOWN] * 3


@pytest.mark.parametrize("rows", [1, 127, 128, 1024, 1025, 5000])
def test_rows_keep_their_order_and_number_however_they_arrive(rows: int):
    numbered = [{**FULL, "count": number} for number in range(rows)]
    at_once = examples(numbered)
    assert read(at_once)["count"].tolist() == list(range(rows))
    assert examples(numbered, batches=7) == at_once


def test_all_rows_of_a_file_lie_at_multiples_of_their_width():
    records = examples([{**FULL, "count": number} for number in range(2100)])
    geometry = blocks.geometry(OF_BLOCKS)
    file = tfrecord.frame(records)
    mapped = np.frombuffer(file, blocks.row_dtype(OF_BLOCKS))
    starts = [file.index(record) + record.index(_rows(record)) for record in records]
    assert {start % geometry.width for start in starts} == {0}
    assert len({len(record) for record in records}) == 1
    first = starts[0] // geometry.width
    stride = (starts[1] - starts[0]) // geometry.width
    assert mapped["count"][first + stride : first + stride + 1024].tolist() == list(range(1024, 2048))


def test_a_row_is_words_of_2_bytes_and_nothing_between_its_numbers():
    dtype = blocks.row_dtype(OF_BLOCKS)
    assert {dtype.fields[feature.name][1] % blocks.WORD_BYTES for feature in OF_BLOCKS.features} == {0}
    assert dtype["tokens"].base == np.uint16
    assert dtype.itemsize == sum(dtype[feature.name].itemsize for feature in OF_BLOCKS.features)


@pytest.mark.parametrize(("numbers", "rows"), [(1, 1024), (1 << 12, 32), (1 << 15, 8), (1 << 20, 8)])
def test_rows_that_are_large_share_a_block_with_fewer(numbers: int, rows: int):
    schema = Schema(name="large", features=(Tensor(name="x", dimensions=(numbers,)),))
    assert blocks.geometry(schema).rows == rows


@pytest.mark.parametrize("feature", [Text(name="x"), Image(name="x"), Categorical(name="x")])
def test_what_has_no_fixed_width_is_refused_by_name(feature: Text | Image | Categorical):
    with pytest.raises(InputError, match=r"feature 'x'.*--layout=rows"):
        blocks.row_dtype(Schema(name="s", features=(feature,)))


def _rows(record: bytes) -> bytes:
    return tf.train.Example.FromString(record).features.feature["rows"].bytes_list.value[0]
