"""Small datasets and configs to train on, and a CPU in two pieces so that there are two real replicas."""

import pathlib

import numpy as np
import pytest
import tensorflow as tf
from ml_collections import ConfigDict

from pipeline.configs import base
from pipeline.data.features import Categorical, Label, Numeric
from pipeline.data.manifest import Dataset
from pipeline.data.schema import Schema
from pipeline.training.record import Request
from tests.tiny_dataset import write_dataset

CPU = tf.config.list_physical_devices("CPU")[0]
tf.config.set_logical_device_configuration(CPU, [tf.config.LogicalDeviceConfiguration()] * 2)

SCHEMA = Schema(
    name="tiny",
    features=(
        Numeric(name="x"),
        Numeric(name="y"),
        Categorical(name="kind", vocabulary=("a", "b")),
        Label(name="positive", classes=("no", "yes")),
    ),
)


def rows(count: int, *, seed: int) -> list[dict]:
    """A task that a small model learns in a few steps: is x + y positive?"""
    draw = np.random.default_rng(seed)
    points = draw.normal(size=(count, 2)).round(3).tolist()
    kinds = draw.choice(["a", "b"], size=count).tolist()
    return [
        {"x": x, "y": y, "kind": kind, "positive": int(x + y > 0)}
        for (x, y), kind in zip(points, kinds, strict=True)
    ]


@pytest.fixture(scope="session")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    splits = {"train": rows(200, seed=0), "validation": rows(50, seed=1), "test": rows(70, seed=2)}
    return write_dataset(tmp_path_factory.mktemp("tiny") / "1.0.0", SCHEMA, splits)


def small_config() -> ConfigDict:
    """An epoch is 12.5 steps, so steps run across epoch boundaries, and the model draws random numbers."""
    config = base.get_config()
    config.global_batch = 16
    config.shuffle_buffer = 64
    config.model = ConfigDict({"name": "wide_deep", "embedding": 2, "hidden": (8,), "dropout": 0.2})
    config.train.epochs = 3.0
    config.train.steps_per_loop = 4
    config.train.log_every_steps = 10
    config.train.checkpoint_every_steps = 6
    config.optimizer.learning_rate = 0.05
    config.optimizer.warmup_steps = 5
    config.evaluation.global_batch = 32
    return config


@pytest.fixture
def config() -> ConfigDict:
    return small_config()


@pytest.fixture
def request_for(dataset: Dataset, config: ConfigDict):
    """Makes requests to train the small config on the small dataset."""

    def make(workdir: pathlib.Path, **changes) -> Request:
        defaults = {"strategy": "one_device", "precision": "float32", "config": config}
        return Request(dataset=dataset.directory, workdir=workdir, **(defaults | changes))

    return make
