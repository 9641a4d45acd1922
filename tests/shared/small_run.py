"""A small dataset and a small experiment on it."""

import pathlib

import numpy as np
from ml_collections import ConfigDict

from pipeline.configs import base
from pipeline.data.dataset.manifest import Dataset
from pipeline.data.schema.feature_types import Categorical, Label, Numeric
from pipeline.data.schema.schema import Schema
from tests.shared.tiny_dataset import write_dataset

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


def write_small_dataset(directory: pathlib.Path, *, layout: str = "rows", seed: int = 0) -> Dataset:
    sizes = {"train": 200, "validation": 50, "test": 70}
    splits = {name: rows(size, seed=seed + i) for i, (name, size) in enumerate(sizes.items())}
    return write_dataset(directory, SCHEMA, splits, layout=layout)


def small_config() -> ConfigDict:
    """An epoch is 12.5 steps, so steps run across epoch boundaries; the model draws random numbers."""
    config = base.get_config()
    config.global_batch = 16
    config.model = ConfigDict({"name": "wide_deep", "embedding": 2, "hidden": (8,), "dropout": 0.2})
    config.train.epochs = 3.0
    config.train.micro_batches = 2
    config.train.steps_per_loop = 4
    config.train.log_every_steps = 10
    config.train.checkpoint_every_steps = 6
    config.optimizer.learning_rate = 0.05
    config.optimizer.ema = 0.5
    config.optimizer.warmup_steps = 5
    config.evaluation.global_batch = 32
    return config
