"""A regression learns the same whatever the unit of its label is, and is told and served in that unit."""

import numpy as np
import pytest
import tensorflow as tf
from sklearn.metrics import r2_score

from pipeline.data.schema.feature_types import Label, Numeric
from pipeline.data.schema.schema import Schema
from pipeline.training.experiment import restore
from pipeline.training.run import run
from pipeline.training.run.request import Request
from tests.shared.parsed import parsed
from tests.shared.small_run import small_config
from tests.shared.tiny_dataset import write_dataset

SCHEMA = Schema(
    name="units", features=(Numeric(name="x"), Numeric(name="y"), Label(name="value", task="regression"))
)
TEST = np.random.default_rng(2).normal(size=(70, 2)).astype("float32").astype("float64")


def value(points: np.ndarray) -> np.ndarray:
    return points[:, 0] - 0.5 * points[:, 1]


def rows(points: np.ndarray, unit: float, offset: float) -> list[dict]:
    labels = (offset + unit * value(points)).tolist()
    return [{"x": x, "y": y, "value": label} for (x, y), label in zip(points.tolist(), labels, strict=True)]


def trained(folder, unit: float, offset: float) -> tuple[dict, np.ndarray]:
    """Final metrics, and predictions of the rows of `test`, in standard units."""
    many = np.random.default_rng(0).normal(size=(400, 2)).astype("float32").astype("float64")
    splits = {"train": rows(many, unit, offset), "test": rows(TEST, unit, offset)}
    dataset = write_dataset(folder / "1.0.0", SCHEMA, splits)
    config = small_config()
    config.train.update({"epochs": 6.0, "steps_per_loop": 32})
    config.model.dropout = 0.0
    request = Request(
        dataset=dataset,
        workdir=folder / "run",
        experiment=parsed(config),
        strategy="one_device",
        precision="float32",
    )
    metrics = run.train(request)
    restored = restore.restore_model(folder / "run")
    features = {name: tf.constant(TEST[:, i], tf.float32) for i, name in enumerate(("x", "y"))}
    predicted = restored.model(restored.preprocess(features)).numpy()[:, 0].astype("float64")
    assert metrics["r2"] == pytest.approx(r2_score(offset + unit * value(TEST), predicted), abs=1e-3)
    assert metrics["loss"] == pytest.approx(np.mean((offset + unit * value(TEST) - predicted) ** 2), rel=1e-2)
    return metrics, (predicted - offset) / unit


@pytest.fixture(scope="module")
def of_millionths(tmp_path_factory) -> np.ndarray:
    metrics, predicted = trained(tmp_path_factory.mktemp("millionths"), 1e-6, 0.0)
    assert metrics["r2"] > 0.9
    return predicted


@pytest.mark.slow
@pytest.mark.parametrize(("unit", "offset"), [(1e9, 0.0), (5.0, 2000.0)])
def test_the_unit_decides_nothing(tmp_path, of_millionths, unit, offset):
    _, predicted = trained(tmp_path, unit, offset)
    np.testing.assert_allclose(predicted, of_millionths, atol=0.02)
