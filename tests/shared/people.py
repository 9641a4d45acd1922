"""A small model with preprocessing, untrained: what an export makes of it is what counts."""

import dataclasses
import math
import pathlib

import keras

from pipeline.data.dataset.manifest import Dataset
from pipeline.data.preprocessing.preprocess import Preprocess
from pipeline.data.schema.feature import Clean
from pipeline.data.schema.feature_types import Categorical, Label, Numeric
from pipeline.data.schema.schema import Schema
from pipeline.data.statistics import loading
from pipeline.exporting.export import Trained
from tests.shared.tiny_dataset import write_dataset

SCHEMA = Schema(
    name="people",
    features=(
        Numeric(name="age", missing="mark"),
        Categorical(name="work", missing="mark", clean=Clean(strip=" ", null_markers=("?", ""))),
        Categorical(name="kind", vocabulary=("a", "b")),
        Label(name="rich", classes=("no", "yes")),
    ),
)
ROWS = [
    {
        "age": math.nan if i % 7 == 0 else float(i),
        "work": ["", "Private", "State"][i % 3],
        "kind": "ab"[i % 2],
        "rich": i % 2,
    }
    for i in range(100)
]


def write_people(directory: pathlib.Path, *, layout: str = "rows") -> Dataset:
    """The rows, 60 to train and 40 to test with. Blocks hold what a schema lists of a category."""
    work = dataclasses.replace(SCHEMA["work"], vocabulary=("Private", "State"))
    listed = dataclasses.replace(SCHEMA, features=(SCHEMA["age"], work, *SCHEMA.features[2:]))
    schema = listed if layout == "blocks" else SCHEMA
    return write_dataset(directory, schema, {"train": ROWS[:60], "test": ROWS[60:]}, layout=layout)


def small_model(dataset: Dataset) -> Trained:
    """In mixed bfloat16; its golden records are the first half of those to train with."""
    keras.utils.set_random_seed(0)
    keras.mixed_precision.set_global_policy("mixed_bfloat16")
    try:
        preprocess = Preprocess(dataset.schema, loading.load(dataset)["train"])
        numeric = keras.Input((preprocess.inputs.numeric,), name="numeric")
        categories = keras.Input((len(preprocess.inputs.cardinalities),), dtype="int32", name="categories")
        ids = max(preprocess.inputs.cardinalities)
        embedded = keras.layers.Flatten()(keras.layers.Embedding(ids, 4)(categories))
        hidden = keras.layers.Dense(8, "relu")(keras.layers.Concatenate()([numeric, embedded]))
        logits = keras.layers.Dense(1, dtype="float32")(hidden)
    finally:
        keras.mixed_precision.set_global_policy("float32")
    return Trained(
        model=keras.Model({"numeric": numeric, "categories": categories}, logits),
        preprocess=preprocess,
        schema=dataset.schema,
        statistics_path=dataset.directory / "statistics.pb",
        golden_path=pathlib.Path(dataset.shard_paths("train")[0]),
        dataset_digest=dataset.manifest.digest,
        step=7,
    )
