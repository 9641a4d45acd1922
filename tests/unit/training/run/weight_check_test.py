"""A record whose weight is none is named before training."""

import math

import pytest

from pipeline.base.errors import InputError
from pipeline.data.dataset.selection import select
from pipeline.data.schema.feature_types import Label, Numeric
from pipeline.data.schema.schema import Schema
from pipeline.training.run.weights import require_weights
from tests.shared.tiny_dataset import write_dataset

WEIGHTS = Numeric(name="w", missing="mark")
SCHEMA = Schema(
    name="weighted", features=(Numeric(name="x"), WEIGHTS, Label(name="y", classes=("no", "yes")))
)


def written(folder, *weights: float, layout: str = "rows"):
    rows = [{"x": float(at), "w": weight, "y": 0} for at, weight in enumerate(weights)]
    return write_dataset(folder / "1.0.0", SCHEMA, {"train": rows}, layout=layout)


@pytest.mark.parametrize(("layout", "place"), [("rows", "record 1"), ("blocks", "record 0, row 1")])
@pytest.mark.parametrize("weight", [-0.5, math.nan])
def test_the_first_one_is_named(tmp_path, layout, place, weight):
    dataset = written(tmp_path, 1.0, 0.0, 2.0, 1.0, weight, -3.0, layout=layout)
    message = (
        rf"--config.train.example_weights='w': received {weight:g} in "
        rf"weighted-train.tfrecord-00001-of-00002, {place} of .*1.0.0; expected a finite number from 0 on"
    )
    with pytest.raises(InputError, match=message):
        require_weights([select(dataset, "train")], WEIGHTS)


def test_what_is_not_read_may_be_anything(tmp_path):
    dataset = written(tmp_path, 1.0, 0.0, 2.0, 1.0, 1.0, -3.0)
    require_weights([select(dataset, "train[:5]")], WEIGHTS)
    require_weights([select(dataset, "train")], None)
    with pytest.raises(InputError, match="record 2 of"):
        require_weights([select(dataset, "train[4:]")], WEIGHTS)


def test_all_that_is_read_is_looked_at(tmp_path):
    sound, other = written(tmp_path / "a", 1.0, 2.0), written(tmp_path / "b", 1.0, -2.0)
    with pytest.raises(InputError, match=r"received -2 in .* of .*/b/1.0.0"):
        require_weights([select(sound, "train"), select(other, "train")], WEIGHTS)
