"""What TensorFlow Datasets is told of a dataset."""

import pathlib

import pytest
import tensorflow_datasets as tfds

from beam_jobs.conversion.dataset import write_tfds_metadata
from pipeline.data.schema.feature import Feature
from pipeline.data.schema.feature_types import Label, Numeric, Text
from pipeline.data.schema.schema import Schema
from tests.shared.tiny_dataset import write_dataset

X, TEXT, Y = Numeric(name="x", number="int64"), Text(name="text"), Label(name="y", task="regression")
ROW = {"x": 3, "text": b"three", "y": 0.5}


def builder(directory: pathlib.Path, *features: Feature) -> tfds.core.DatasetBuilder:
    schema = Schema(name="s", features=features)
    row = {feature.name: ROW[feature.name] for feature in features}
    written = write_dataset(directory / "1.0.0", schema, {"train": [row]}, shards=1)
    write_tfds_metadata(
        schema, written.manifest.splits, layout="rows", version="1.0.0", directory=written.directory
    )
    return tfds.builder_from_directory(written.directory)


@pytest.mark.parametrize(("feature", "value"), [(X, 3), (TEXT, b"three")])
def test_one_input_and_a_label_are_supervised(tmp_path: pathlib.Path, feature: Feature, value: object):
    [(given, label)] = builder(tmp_path, Y, feature).as_dataset(split="train", as_supervised=True)
    assert (given.numpy(), label.numpy()) == (value, 0.5)


def test_two_inputs_or_none_are_not(tmp_path: pathlib.Path):
    assert builder(tmp_path / "two", X, TEXT, Y).info.supervised_keys is None
    assert builder(tmp_path / "none", X).info.supervised_keys is None
