"""Datasets of records of 30 KB and of 346 B, whose rows differ by their ids alone."""

import pathlib

import numpy as np

from pipeline.data.schema.feature_types import Categorical, Label, Tensor
from pipeline.data.schema.schema import Schema
from tests.shared.tiny_dataset import write_dataset

SHARDS = 4
SIZES = {"large": (7_480, 2_000), "small": (75, 100_000)}  # numbers in a row, rows


def written(scratch: pathlib.Path, name: str) -> pathlib.Path:
    """The directory of the dataset of that name below `scratch`; written unless it is there."""
    directory = scratch / name
    if not (directory / "manifest.json").exists():
        numbers, rows = SIZES[name]
        x = np.random.default_rng(0).random(numbers, np.float32).tolist()
        schema = Schema(
            name=name,
            features=(
                Categorical(name="id", encoding="integer", size=1 << 20),
                Tensor(name="x", dimensions=(numbers,)),
                Label(name="y", classes=("no", "yes")),
            ),
        )
        rows_ = [{"id": id_, "x": x, "y": id_ % 2} for id_ in range(rows)]
        write_dataset(directory, schema, {"train": rows_}, shards=SHARDS)
    return directory
