"""Parsing follows the schema: static shapes, defaults for absent features, labels ready for a device."""

import numpy as np
import pytest
import tensorflow as tf

from pipeline.data.reading.parsing import parse_examples, parsing_spec
from pipeline.data.schema.feature_types import Categorical, Label, Numeric, Tensor
from pipeline.data.schema.schema import Schema
from tests.shared.tiny_dataset import serialize

SCHEMA = Schema(
    name="parsed",
    features=(
        Numeric(name="x", missing="mark"),
        Numeric(name="n", number="int64", missing="default", default=7),
        Categorical(name="c"),
        Tensor(name="t", dimensions=(2, 2)),
        Label(name="y", classes=("a", "b")),
    ),
)
ROW = {"x": 1.5, "n": 3, "c": "blue", "t": [1.0, 2.0, 3.0, 4.0], "y": 1}


def test_values_come_back_with_static_shapes():
    features, labels = parse_examples(tf.constant([serialize(SCHEMA, ROW)] * 3), SCHEMA)
    assert features["t"].shape == (3, 2, 2) and labels.dtype == tf.int32
    assert features["c"].numpy().tolist() == [b"blue"] * 3
    np.testing.assert_array_equal(features["t"][0], [[1.0, 2.0], [3.0, 4.0]])


def test_an_absent_feature_gets_its_fill_value():
    record = serialize(SCHEMA, {name: value for name, value in ROW.items() if name not in ("x", "n")})
    features, _ = parse_examples(tf.constant([record]), SCHEMA)
    assert np.isnan(features["x"][0]) and features["n"][0] == 7


def test_an_absent_feature_without_a_fill_value_is_an_error():
    record = serialize(SCHEMA, {name: value for name, value in ROW.items() if name != "c"})
    with pytest.raises(tf.errors.InvalidArgumentError, match="Feature: c"):
        parse_examples(tf.constant([record]), SCHEMA)


def test_serving_needs_no_label():
    assert "y" not in parsing_spec(SCHEMA, with_label=False)
