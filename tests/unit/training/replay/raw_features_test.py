"""The features of a record are told as they were written, of every kind and in both layouts."""

import numpy as np
import pytest

from pipeline.data.dataset.selection import select
from pipeline.data.schema.feature_types import Categorical, Datetime, Label, Numeric, Tensor, Tokens
from pipeline.data.schema.schema import Schema
from pipeline.training.replay.stream import raw_features, records_of
from tests.shared.tiny_dataset import write_dataset

SCHEMA = Schema(
    name="kinds",
    features=(
        Numeric(name="number"),
        Numeric(name="whole", number="int64"),
        Categorical(name="id", encoding="integer", size=70_000),
        Tokens(name="words", length=3, vocabulary_size=70_000),
        Tensor(name="matrix", dimensions=(2, 2)),
        Datetime(name="when"),
        Label(name="label", classes=("no", "yes")),
    ),
)


def example(number: int) -> dict[str, object]:
    return {
        "number": number / 4,
        "whole": (1 << 60) + number,
        "id": 69_000 + number,
        "words": [number, 65_536 + number, 0],
        "matrix": [number + 0.5, -1.0, 0.0, 1e30],
        "when": 1_700_000_000_000_000 + number,
        "label": number % 2,
    }


@pytest.mark.parametrize("layout", ["rows", "blocks"])
def test_features_are_those_that_were_written(tmp_path, layout):
    examples = [example(number) for number in range(20)]
    selection = select(write_dataset(tmp_path / "data", SCHEMA, {"train": examples}, layout=layout), "train")
    chosen = [13, 0, 7, 19]
    records = records_of(selection, np.arange(4), np.array([(0, number) for number in chosen]))
    for number, features in zip(chosen, raw_features(selection, records), strict=True):
        assert set(features) == set(examples[number])
        for name, written in examples[number].items():
            np.testing.assert_array_equal(features[name].ravel(), np.asarray(written, features[name].dtype))
