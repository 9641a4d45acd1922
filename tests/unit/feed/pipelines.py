"""Small input pipelines in which no stage is slow."""

import pathlib
from collections.abc import Callable

import numpy as np
import tensorflow as tf

from pipeline.data.dataset.selection import select
from pipeline.data.input.stages import Recipe, Stage
from pipeline.data.input.training import training_recipe
from pipeline.data.preprocessing.preprocess import Preprocess
from pipeline.data.reading.plan import plan_reading
from pipeline.data.reading.sharding import Share
from pipeline.data.schema.feature_types import Label, Numeric
from pipeline.data.schema.schema import Schema
from tests.shared.tiny_dataset import describe, write_dataset

BATCH = 64
GROUP = 8  # rows that are read at once
SIDE = 32  # of images
RAW_BYTES, RAW_RECORDS = 200, 2_000

Records = Callable[[], tf.data.Dataset]


def undisturbed(folder: pathlib.Path) -> dict[str, Recipe]:
    return {
        "table": table(folder / "table"),
        "images": images(folder / "images"),
        "raw": raw(one_shard(folder / "raw")),
    }


def table(folder: pathlib.Path, *, shuffle: str = "auto", rows: int = 4_000) -> Recipe:
    """A table of numbers, as training reads it."""
    draw = np.random.default_rng(0)
    schema = Schema(
        name="table",
        features=(*(Numeric(name=f"x{i}") for i in range(4)), Label(name="y", classes=("a", "b"))),
    )
    columns = draw.normal(size=(rows, 4)).round(3).tolist()
    data = [{f"x{i}": value for i, value in enumerate(row)} | {"y": n % 2} for n, row in enumerate(columns)]
    dataset = write_dataset(folder, schema, {"train": data})
    return training_recipe(
        plan_reading(select(dataset, "train"), share=Share(global_batch=BATCH), seed=0, shuffle=shuffle),
        Preprocess(schema, describe(schema, data[:100])),
    )


def images(folder: pathlib.Path, *, side: int = SIDE) -> Recipe:
    """PNG files in single records, decoded one by one and cut to SIDE."""
    pixels = np.random.default_rng(0).integers(0, 256, (8, side, side, 3), np.uint8)
    encoded = [tf.io.encode_png(image).numpy() for image in pixels]
    path = write_records(
        folder, encoded * max(1, 1024 // side)
    )  # not so few that opening the file again counts
    return Recipe(
        read=lambda: numbered(tf.data.TFRecordDataset(path)),
        rows_read=GROUP,
        batch=BATCH,
        stages=(
            Stage(name="decode", apply=_decode, each=True),
            Stage(name="cast", apply=lambda positions, x: (tf.cast(x, tf.int32),)),
        ),
    )


def raw(records: Records) -> Recipe:
    """Single records of which the first bytes are taken."""
    return Recipe(
        read=lambda: numbered(records()),
        rows_read=GROUP,
        batch=BATCH,
        stages=(Stage(name="decode", apply=_first_bytes),),
    )


def one_shard(folder: pathlib.Path) -> Records:
    path = write_records(folder, [bytes(RAW_BYTES)] * RAW_RECORDS)
    return lambda: tf.data.TFRecordDataset(path)


def write_records(folder: pathlib.Path, records: list[bytes], *, compression: str = "") -> str:
    folder.mkdir(parents=True)
    path = str(folder / "data.tfrecord")
    with tf.io.TFRecordWriter(path, compression) as writer:
        for record in records:
            writer.write(record)
    return path


def numbered(records: tf.data.Dataset) -> tf.data.Dataset:
    return records.repeat().enumerate().batch(GROUP, drop_remainder=True)


def _decode(positions: tf.Tensor, data: tf.Tensor) -> tuple:
    return positions, tf.ensure_shape(tf.io.decode_png(data, 3)[:SIDE, :SIDE], [SIDE, SIDE, 3])


def _first_bytes(positions: tf.Tensor, data: tf.Tensor) -> tuple:
    return positions, tf.io.decode_raw(tf.strings.substr(data, 0, 64), tf.uint8)
