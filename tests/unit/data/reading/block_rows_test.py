"""Rows of blocks are features as records of the same rows give them, raw and preprocessed."""

import numpy as np
import pytest
import tensorflow as tf

from pipeline.data.dataset import blocks
from pipeline.data.dataset.manifest import Dataset
from pipeline.data.dataset.selection import select
from pipeline.data.preprocessing.preprocess import Preprocess
from pipeline.data.reading import parsing, windows
from pipeline.data.reading.parsing import parse_examples
from pipeline.data.schema.feature_types import Categorical, Label, Numeric, Tensor, Tokens
from pipeline.data.schema.schema import Schema
from pipeline.data.statistics import loading
from tests.shared.tiny_dataset import write_dataset

SCHEMA = Schema(
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
ROWS = [
    FULL,
    FULL | {"city": "Bern", "weight": -1.0, "label": 0},
    FULL | {"city": "Oslo", "tokens": [0, 0, 0]},
]


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[Dataset, object]]:
    directory = tmp_path_factory.mktemp("blocks")
    datasets = {
        layout: write_dataset(directory / layout, SCHEMA, {"train": ROWS}, shards=1, layout=layout)
        for layout in ("rows", "blocks")
    }
    return {
        name: (each, next(iter(windows.stored_rows(select(each, "train"))))[1])
        for name, each in datasets.items()
    }


def test_raw_features_are_those_of_records(stored):
    features, _ = parse_examples(stored["rows"][1], SCHEMA)
    words = stored["blocks"][1]
    raw = parsing.raw_of_compact(parsing.features_of_words(words, SCHEMA), SCHEMA)
    assert raw["city"].numpy().tolist() == [b"Rome", b"Bern", blocks.UNKNOWN_VALUE.encode()]
    for name in features.keys() - {"city"}:
        assert raw[name].dtype == features[name].dtype
        np.testing.assert_array_equal(raw[name], features[name], err_msg=name)


def test_model_inputs_are_those_of_records(stored):
    dataset, records = stored["rows"]
    preprocess = Preprocess(SCHEMA, loading.load(dataset)["train"])
    of_records = preprocess(parse_examples(records, SCHEMA)[0])
    of_words = preprocess(parsing.features_of_words(stored["blocks"][1], SCHEMA))
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
    schema = Schema(name="some", features=tuple(SCHEMA[name] for name in order))
    dtype, draw = blocks.row_dtype(schema), np.random.default_rng(0)
    rows = np.frombuffer(draw.bytes(50 * dtype.itemsize), dtype)
    words = tf.constant(np.frombuffer(rows.tobytes(), "<u2").reshape(50, -1))
    found = parsing.features_of_words(words, schema)
    for name in order:
        stored = rows[name].astype(np.int32) if rows[name].dtype == np.uint16 else rows[name]
        assert found[name].numpy().tobytes() == stored.tobytes(), name
