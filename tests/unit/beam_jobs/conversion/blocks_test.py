"""Blocks of rows, read back with numpy and with TensorFlow."""

import numpy as np
import pyarrow as pa
import pytest
import tensorflow as tf

from beam_jobs.cells.typed import arrow_schema
from beam_jobs.conversion.records import encode_blocks
from pipeline.base.errors import InputError
from pipeline.data.dataset import blocks, tfrecord
from pipeline.data.schema.feature_types import Categorical, Image, Label, Numeric, Tensor, Text, Tokens
from pipeline.data.schema.schema import Schema

SCHEMA = Schema(
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
    batch = pa.RecordBatch.from_pylist(rows, schema=arrow_schema(SCHEMA))
    size = -(-len(rows) // batches)
    parts = [batch.slice(start, size) for start in range(0, len(rows), size)]
    return [record for records in encode_blocks(parts, SCHEMA) for record in records.to_pylist()]


def read(records: list[bytes]) -> np.ndarray:
    """The rows of blocks, by TensorFlow's parser and numpy."""
    spec = {
        name: tf.io.FixedLenFeature([], kind) for name, kind in (("rows", tf.string), ("count", tf.int64))
    }
    parsed = tf.io.parse_example(records, spec)
    pairs = zip(parsed["rows"].numpy(), parsed["count"].numpy(), strict=True)
    return np.concatenate([np.frombuffer(rows, blocks.row_dtype(SCHEMA))[:count] for rows, count in pairs])


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
    geometry = blocks.geometry(SCHEMA)
    file = tfrecord.frame(records)
    mapped = np.frombuffer(file, blocks.row_dtype(SCHEMA))
    starts = [file.index(record) + record.index(_rows(record)) for record in records]
    assert {start % geometry.width for start in starts} == {0}
    assert len({len(record) for record in records}) == 1
    first = starts[0] // geometry.width
    stride = (starts[1] - starts[0]) // geometry.width
    assert mapped["count"][first + stride : first + stride + 1024].tolist() == list(range(1024, 2048))


def test_a_row_is_words_of_2_bytes_and_nothing_between_its_numbers():
    dtype = blocks.row_dtype(SCHEMA)
    assert {dtype.fields[feature.name][1] % blocks.WORD_BYTES for feature in SCHEMA.features} == {0}
    assert dtype["tokens"].base == np.uint16
    assert dtype.itemsize == sum(dtype[feature.name].itemsize for feature in SCHEMA.features)


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
