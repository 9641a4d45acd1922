"""Datasets of nothing but ids and labels, on which orders of rows are tested."""

import dataclasses

import numpy as np

from pipeline.data.features import Categorical, Label
from pipeline.data.recipe import Recipe
from pipeline.data.schema import Schema

SCHEMA = Schema(
    name="ids",
    features=(
        Categorical(name="id", encoding="integer", size=1 << 20),
        Label(name="y", classes=("no", "yes")),
    ),
)


def ids_of(recipe: Recipe, *, batches: int) -> np.ndarray:
    """Ids of the first batches of one replica, before the last stage, which preprocesses for a model."""
    parsed = dataclasses.replace(recipe, stages=recipe.stages[:-1]).dataset()
    return np.concatenate([features["id"] for features, _ in parsed.take(batches)])
