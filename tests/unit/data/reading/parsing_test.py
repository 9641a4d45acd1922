"""Parsing follows the schema; rows of blocks are features as records of the same rows give them."""

import numpy as np
import pytest
import tensorflow as tf

from pipeline.data.dataset import blocks
from pipeline.data.dataset.manifest import Dataset
from pipeline.data.dataset.selection import select
from pipeline.data.preprocessing.preprocess import Preprocess
from pipeline.data.reading import parsing, windows
from pipeline.data.reading.parsing import parse_examples, parsing_spec
from pipeline.data.schema.feature_types import Categorical, Label, Numeric, Tensor, Tokens
from pipeline.data.schema.schema import Schema
from pipeline.data.statistics import loading
from tests.shared.tiny_dataset import serialize, write_dataset

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


def test_labels_of_several_columns_come_together():
    targets = tuple(Label(name=name, task="regression") for name in ("b", "a"))
    schema = Schema(name="two", features=(targets[0], Numeric(name="x"), targets[1]))
    record = serialize(schema, {"b": 2.0, "x": 1.5, "a": 3.0})
    features, labels = parse_examples(tf.constant([record] * 3), schema)
    assert list(features) == ["x"]
    np.testing.assert_array_equal(labels, [[2.0, 3.0]] * 3)


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


# Rows of blocks are features as records of the same rows give them, raw and preprocessed.
FIXED = Schema(
    name="every_fixed_kind",
    features=(
        Numeric(name="weight", missing="mark"),
        Numeric(name="count", number="int64"),
        Categorical(name="city", vocabulary=("Bern", "Rome"), missing="mark"),
        Categorical(name="digit", encoding="integer", size=10),
        Tokens(name="tokens", length=3, vocabulary_size=100),
        Tokens(name="many", length=2, vocabulary_size=1 << 20),
        Tensor(name="matrix", dimensions=(2, 2)),
        Label(name="label", classes=("no", "yes")),
    ),
)
FULL = {
    "weight": 0.5, "count": 1 << 40, "city": "Rome", "digit": 7, "tokens": [1, 2, 99],
    "many": [1 << 19, 3], "matrix": [1.0, 2.0, 3.0, 4.0], "label": 1,
}  # fmt: skip
FIXED_ROWS = [
    FULL,
    FULL | {"city": "Bern", "weight": -1.0, "label": 0},
    FULL | {"city": "Oslo", "tokens": [0, 0, 0]},
]


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[Dataset, object]]:
    directory = tmp_path_factory.mktemp("blocks")
    datasets = {
        layout: write_dataset(directory / layout, FIXED, {"train": FIXED_ROWS}, shards=1, layout=layout)
        for layout in ("rows", "blocks")
    }
    return {
        name: (each, next(iter(windows.stored_rows(select(each, "train"))))[1])
        for name, each in datasets.items()
    }


def test_raw_features_are_those_of_records(stored):
    features, _ = parse_examples(stored["rows"][1], FIXED)
    words = stored["blocks"][1]
    raw = parsing.raw_of_compact(parsing.features_of_words(words, FIXED), FIXED)
    assert raw["city"].numpy().tolist() == [b"Rome", b"Bern", blocks.UNKNOWN_VALUE.encode()]
    for name in features.keys() - {"city"}:
        assert raw[name].dtype == features[name].dtype
        np.testing.assert_array_equal(raw[name], features[name], err_msg=name)


def test_model_inputs_are_those_of_records(stored):
    dataset, records = stored["rows"]
    preprocess = Preprocess(FIXED, loading.load(dataset)["train"])
    of_records = preprocess(parse_examples(records, FIXED)[0])
    of_words = preprocess(parsing.features_of_words(stored["blocks"][1], FIXED))
    assert of_records.keys() == of_words.keys()
    for name, expected in of_records.items():
        np.testing.assert_array_equal(of_words[name], expected, err_msg=name)


@pytest.mark.parametrize(
    "order",
    [
        ("weight", "matrix", "label"),  # all of four bytes
        ("count", "label", "weight"),  # eight bytes first, in rows of whole eights
        ("label", "count", "weight"),  # eight bytes after four
        ("count", "weight"),  # eight bytes in rows of twelve
        ("tokens", "weight", "label"),  # four bytes after six, in rows of fourteen
        ("weight", "tokens", "label"),
    ],
    ids="-".join,
)
def test_numbers_are_cut_out_at_any_offset(order: tuple[str, ...]):
    schema = Schema(name="some", features=tuple(FIXED[name] for name in order))
    dtype, draw = blocks.row_dtype(schema), np.random.default_rng(0)
    rows = np.frombuffer(draw.bytes(50 * dtype.itemsize), dtype)
    words = tf.constant(np.frombuffer(rows.tobytes(), "<u2").reshape(50, -1))
    found = parsing.features_of_words(words, schema)
    for name in order:
        stored = rows[name].astype(np.int32) if rows[name].dtype == np.uint16 else rows[name]
        assert found[name].numpy().tobytes() == stored.tobytes(), name
