"""Blocks of rows held against the schema."""

import numpy as np
import pytest
import tensorflow as tf

from beam_jobs.checks.records import LAYOUTS
from pipeline.data.dataset import blocks
from pipeline.data.schema.feature_types import Categorical, Label, Numeric
from pipeline.data.schema.schema import Schema

SCHEMA = Schema(
    name="s",
    features=(
        Numeric(name="age", number="int64", minimum=0, maximum=150),
        Categorical(name="city", vocabulary=("Bern", "Zug"), unknown="reject", missing="mark"),
        Label(name="label", classes=("no", "yes")),
    ),
)
GOOD = [(7, 1, 0), (150, blocks.MISSING, 1)]


def block(rows: list[tuple], *, count: int | None = None, size: int | None = None) -> bytes:
    filled = np.resize(np.array(rows, blocks.row_dtype(SCHEMA)), blocks.geometry(SCHEMA).rows)
    values = {
        blocks.ROWS: tf.train.Feature(bytes_list=tf.train.BytesList(value=[filled.tobytes()[:size]])),
        blocks.COUNT: tf.train.Feature(int64_list=tf.train.Int64List(value=[count or len(rows)])),
    }
    return tf.train.Example(features=tf.train.Features(feature=values)).SerializeToString()


def test_a_block_holds_the_rows_that_count():
    rows = LAYOUTS["blocks"].rows(block(GOOD), SCHEMA)
    assert [np.frombuffer(row, blocks.row_dtype(SCHEMA))[0].item() for row in rows] == GOOD
    assert LAYOUTS["blocks"].problems([block(GOOD)], SCHEMA) == {}


@pytest.mark.parametrize(
    ("record", "problem"),
    [
        (block([*GOOD, (151, 0, 0)]), "row 2 of the block: feature 'age' is outside of 0 … 150"),
        (block([(1, 2, 0)]), "row 0 of the block: feature 'city' is no index into the vocabulary"),
        (
            block([(1, blocks.UNKNOWN, 0)]),
            "row 0 of the block: feature 'city' is no index into the vocabulary",
        ),
        (block(GOOD, count=1025), "a count of 1,025 in a block of 1,024 rows"),
        (block(GOOD, size=-1), "not a block of 1,024 rows of 16 bytes"),
        (b"", "not a block: no rows, or no count of them"),
    ],
)
def test_a_block_that_does_not_conform(record: bytes, problem: str):
    assert LAYOUTS["blocks"].problems([block(GOOD), record], SCHEMA) == {1: problem}
