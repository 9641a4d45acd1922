"""Datasets of nothing but ids and labels, on which orders of rows are tested."""

import dataclasses
import pathlib
from collections.abc import Iterable

import numpy as np

from pipeline.data.dataset.manifest import Dataset
from pipeline.data.dataset.selection import Selection
from pipeline.data.input.training import training_recipe
from pipeline.data.reading import stream
from pipeline.data.reading.plan import ReadPlan
from pipeline.data.reading.sharding import Share
from pipeline.data.schema.feature_types import Categorical, Label
from pipeline.data.schema.schema import Schema
from tests.shared.tiny_dataset import write_dataset

SCHEMA = Schema(
    name="ids",
    features=(
        Categorical(name="id", encoding="integer", size=1 << 20),
        Label(name="y", classes=("no", "yes")),
    ),
)

BATCH, REPLICAS = 20, 4  # of `ids`


def write(directory: pathlib.Path, numbers: Iterable[int], **how: object) -> Dataset:
    """A dataset of these ids; `how` goes to `write_dataset`."""
    rows = [{"id": number, "y": number % 2} for number in numbers]
    return write_dataset(directory, SCHEMA, {"train": rows}, **how)


def ids(
    selection: Selection, way: str, *, position: int = 0, steps: int, hosts: int = 1, seed: int = 1
) -> list[int]:
    """Ids of `steps` global batches, each put together from what its hosts read."""
    parts = []
    for host in range(hosts):
        share = Share(global_batch=BATCH, replicas=REPLICAS, shard_count=hosts, shard_index=host)
        plan = ReadPlan(data=selection, ways=(way,), seed=seed, position=position, share=share)
        read = ids_of(plan, batches=steps * REPLICAS // hosts)
        parts.append(np.reshape(read, [steps, BATCH // hosts]))
    return np.concatenate(parts, axis=1).ravel().tolist()


def ids_of(plan: ReadPlan, *, batches: int) -> np.ndarray:
    """Ids, int64 [n], of the first batches of one replica, as training reads them."""
    recipe = training_recipe(plan, preprocess=None)  # whose last stage, which would call it, is left out
    parsed = dataclasses.replace(recipe, stages=recipe.stages[:-1]).dataset()
    return np.concatenate([features["id"] for features, _ in parsed.take(batches)])


def numbers_of(plan: ReadPlan, *, rows: int) -> tuple[np.ndarray, np.ndarray]:
    """Positions, int64 [rows], and numbers, int64 [rows, 2], of the first rows of the plan's share."""
    positions, numbers = next(iter(stream.read_numbers(plan).unbatch().batch(rows)))
    return positions.numpy(), numbers.numpy()
