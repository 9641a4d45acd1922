"""Encoded records against TensorFlow's own reading of them."""

import math
import tracemalloc

import numpy as np
import pyarrow as pa
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from beam_jobs.cells.typed import arrow_schema
from beam_jobs.conversion.records import encode, encode_rows
from pipeline.data.schema.feature_types import Categorical, Image, Numeric, Tensor, Text, Tokens
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
