"""Expressions of splits, and the rows that Penstock and TensorFlow Datasets select by them."""

import functools
import itertools
import pathlib
import random

import numpy as np
import tensorflow as tf
import tensorflow_datasets as tfds

from beam_jobs.conversion.dataset import write_tfds_metadata
from pipeline.base.errors import InputError
from pipeline.data.dataset.manifest import Dataset
from pipeline.data.dataset.selection import Selection, select
from pipeline.data.schema.feature_types import Label, Numeric
from pipeline.data.schema.schema import Schema
from tests.shared.tiny_dataset import write_dataset

SIZES = {"train": 103, "validation": 20, "test": 7}
SCHEMA = Schema(name="s", features=(Numeric(name="id", number="int64"), Label(name="y", task="regression")))


def write(directory: pathlib.Path) -> Dataset:
    """Rows with ids, in three shards a split."""
    ids = itertools.count()
    splits = {split: [{"id": next(ids), "y": 0.0} for _ in range(size)] for split, size in SIZES.items()}
    written = write_dataset(directory / "1.0.0", SCHEMA, splits, shards=3)
    write_tfds_metadata(
        SCHEMA, written.manifest.splits, layout="rows", version="1.0.0", directory=written.directory
    )
    return written


def bound(random: random.Random, unit: str, size: int) -> str:
    """A number as TFDS spells it, mostly inside the split, or none."""
    if unit == "%":
        number = random.choice([random.randint(-100, 100), round(random.uniform(-101, 101), 2)])
    else:
        limit = 4 if unit == "shard" else size + 2
        number = random.randint(-limit, limit)
    return random.choice(["", *3 * [f"{number}{unit}"]])


def part(random: random.Random) -> str:
    split, size = random.choice([*SIZES.items()])
    unit = random.choice(["", "%", "shard"])
    sliced = f"{split}[{bound(random, unit, size)}:{bound(random, unit, size)}]"
    return random.choice([split, f"{split}[{random.randint(-4, 4)}shard]", *4 * [sliced]])


def expressions(number: int = 200) -> list[str]:
    """Different sums of one to three parts, with every unit, sign and rounding; some are wrong."""
    fixed = ("all", "all[:10%]", "train[:1shard]", "train[1_0:2_0]", "train[ :5]", "train[5]", "none[:5]")
    seeded = random.Random(12)
    found = dict.fromkeys(fixed)
    while len(found) < number:
        parts = [part(seeded) for _ in range(seeded.choice([1, 1, 1, 2, 3]))]
        found[seeded.choice(["+", " + "]).join(parts)] = None
    return [*found]


def rows_read_by_tfds(builder: tfds.core.DatasetBuilder, expression: str) -> list[int]:
    reading = tfds.ReadConfig(try_autocache=False)
    rows = builder.as_dataset(split=expression, read_config=reading, batch_size=1000)
    return sorted(id for batch in rows.as_numpy_iterator() for id in batch["id"].tolist())


def rows_named_by_tfds(builder: tfds.core.DatasetBuilder, expression: str) -> list[int]:
    """The same without reading: by what TFDS tells itself to read of each file."""
    parts = builder.info.splits[expression].file_instructions
    ids = [(_ids(str(part.filename)), part.skip, part.take) for part in parts]
    return sorted(id for all, skip, take in ids for id in all[skip:][: take if take >= 0 else None].tolist())


def rows_of(selection: Selection) -> list[int]:
    """The ids of the selected rows, read with TensorFlow."""
    ids = np.concatenate([_ids(path) for path in selection.shards.paths])
    return sorted(int(ids[row]) for first, end in selection.ranges for row in range(first, end))


@functools.cache
def _ids(path: str) -> np.ndarray:
    spec = {"id": tf.io.FixedLenFeature([], tf.int64)}
    [batch] = tf.data.TFRecordDataset(path).batch(1000).map(lambda rows: tf.io.parse_example(rows, spec))
    return batch["id"].numpy()


def selected(dataset: Dataset, expression: str) -> list[int] | None:
    """None where the expression is refused."""
    try:
        return rows_of(select(dataset, expression))
    except InputError:
        return None
