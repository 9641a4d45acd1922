"""Stored records and blocks of rows, held against the schema."""

import math

import numpy as np
import pytest
import tensorflow as tf

from beam_jobs.checks import records as records_lib
from beam_jobs.checks.records import LAYOUTS
from pipeline.data.dataset import blocks
from pipeline.data.schema.feature_types import Categorical, Image, Label, Numeric, Tensor, Text, Tokens
from pipeline.data.schema.schema import Schema
from tests.shared.fixtures.raw_data import encoded, fruit_pixels

SCHEMA = Schema(
    name="s",
    features=(
        Numeric(name="age", number="int64", minimum=0, maximum=150, missing="default", default=-1),
        Numeric(name="tall", missing="mark", maximum=2.1),
        Categorical(name="city", vocabulary=("Bern",), unknown="reject", missing="mark"),
        Text(name="text"),
        Tokens(name="tokens", length=2, vocabulary_size=9),
        Tensor(name="matrix", dimensions=(2, 1)),
        Image(name="image", height=4, width=6, encoding="png"),
        Label(name="label", classes=("no", "yes")),
    ),
)
GOOD = {
    "age": [7],
    "tall": [2.1],
    "city": [b"Bern"],
    "text": ["é".encode()],
    "tokens": [0, 8],
    "matrix": [1.0, -1.0],
    "image": [encoded(fruit_pixels(0))],
    "label": [1],
}


def example(**changes: list | None) -> bytes:
    return serialized(GOOD | changes)


def serialized(values_by_name: dict[str, list | None]) -> bytes:
    features = {}
    for name, values in values_by_name.items():
        if values is None:
            continue
        if isinstance(values[0], bytes):
            features[name] = tf.train.Feature(bytes_list=tf.train.BytesList(value=values))
        elif isinstance(values[0], float):
            features[name] = tf.train.Feature(float_list=tf.train.FloatList(value=values))
        else:
            features[name] = tf.train.Feature(int64_list=tf.train.Int64List(value=values))
    return tf.train.Example(features=tf.train.Features(feature=features)).SerializeToString()


def test_conforming_records_and_their_missing_values():
    assert (
        records_lib.conformance_problems([example(), example(age=[-1], tall=[math.nan], city=[b""])], SCHEMA)
        == {}
    )


def test_a_record_holds_an_ordinary_picture_whatever_was_converted():
    schema = Schema(name="s", features=(Image(name="image", height=4, width=6, encoding="jpeg"),))
    images = {kind: {"image": [encoded(fruit_pixels(0), kind)]} for kind in ("PNG", "JPEG", "TIFF")}
    records = [serialized(image) for image in images.values()]
    assert records_lib.conformance_problems(records, schema) == {2: "feature 'image' is no image as declared"}


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"age": None}, "feature 'age' is absent"),
        ({"age": [151]}, "feature 'age' is outside of 0 … 150"),
        ({"age": [1.0]}, "feature 'age' is float_list, not int64_list"),
        ({"tall": [2.2]}, "feature 'tall' is outside of -inf … 2.1"),
        ({"tall": [math.inf]}, "feature 'tall' is outside of -inf … 2.1"),
        ({"city": [b"Rom"]}, "feature 'city' is not in the vocabulary"),
        ({"text": [b"\xe9"]}, "feature 'text' is not UTF-8"),
        ({"tokens": [1]}, "feature 'tokens' has 1 values in place of 2"),
        ({"tokens": [1, 9]}, "feature 'tokens' is outside of 0 … 8"),
        ({"matrix": [0.0, math.nan]}, "feature 'matrix' is outside of -inf … inf"),
        ({"image": [b"text"]}, "feature 'image' is no image as declared"),
        ({"label": [2]}, "feature 'label' is outside of 0 … 1"),
        ({"other": [2]}, "feature 'other' is not in the schema"),
    ],
)
def test_a_record_that_does_not_conform(changes: dict, problem: str):
    assert records_lib.conformance_problems([example(), example(**changes)], SCHEMA) == {1: problem}


def test_other_bytes():
    assert records_lib.conformance_problems([b"text"], SCHEMA) == {0: "not a tf.train.Example"}


# Blocks of rows held against the schema.
OF_BLOCKS = Schema(
    name="s",
    features=(
        Numeric(name="age", number="int64", minimum=0, maximum=150),
        Categorical(name="city", vocabulary=("Bern", "Zug"), unknown="reject", missing="mark"),
        Label(name="label", classes=("no", "yes")),
    ),
)
GOOD_ROWS = [(7, 1, 0), (150, blocks.MISSING, 1)]


def block(rows: list[tuple], *, count: int | None = None, size: int | None = None) -> bytes:
    filled = np.resize(np.array(rows, blocks.row_dtype(OF_BLOCKS)), blocks.geometry(OF_BLOCKS).rows)
    values = {
        blocks.ROWS: tf.train.Feature(bytes_list=tf.train.BytesList(value=[filled.tobytes()[:size]])),
        blocks.COUNT: tf.train.Feature(int64_list=tf.train.Int64List(value=[count or len(rows)])),
    }
    return tf.train.Example(features=tf.train.Features(feature=values)).SerializeToString()


def test_a_block_holds_the_rows_that_count():
    rows = LAYOUTS["blocks"].rows(block(GOOD_ROWS), OF_BLOCKS)
    assert [np.frombuffer(row, blocks.row_dtype(OF_BLOCKS))[0].item() for row in rows] == GOOD_ROWS
    assert LAYOUTS["blocks"].problems([block(GOOD_ROWS)], OF_BLOCKS) == {}


@pytest.mark.parametrize(
    ("record", "problem"),
    [
        (block([*GOOD_ROWS, (151, 0, 0)]), "row 2 of the block: feature 'age' is outside of 0 … 150"),
        (block([(1, 2, 0)]), "row 0 of the block: feature 'city' is no index into the vocabulary"),
        (
            block([(1, blocks.UNKNOWN, 0)]),
            "row 0 of the block: feature 'city' is no index into the vocabulary",
        ),
        (block(GOOD_ROWS, count=1025), "a count of 1,025 in a block of 1,024 rows"),
        (block(GOOD_ROWS, size=-1), "not a block of 1,024 rows of 16 bytes"),
        (b"", "not a block: no rows, or no count of them"),
    ],
)
def test_a_block_that_does_not_conform(record: bytes, problem: str):
    assert LAYOUTS["blocks"].problems([block(GOOD_ROWS), record], OF_BLOCKS) == {1: problem}
