"""Stages that are slow."""

import pathlib
import time

import numpy as np
import tensorflow as tf

from pipeline.data.images.augmentation import Augmentation
from pipeline.data.images.training_image import augment_image
from pipeline.data.input.stages import Recipe, Stage
from tests.unit.feed.pipelines import BATCH, GROUP, numbered, write_records


def many_features(folder: pathlib.Path, count: int = 400) -> Recipe:
    """Every number a feature of its own."""
    names = [f"x{i}" for i in range(count)]
    floats = tf.train.Feature(float_list=tf.train.FloatList(value=[1.0]))
    example = tf.train.Example(features=tf.train.Features(feature=dict.fromkeys(names, floats)))
    path = write_records(folder, [example.SerializeToString()] * 256)
    spec = {name: tf.io.FixedLenFeature([], tf.float32) for name in names}

    def parse(positions: tf.Tensor, rows: tf.Tensor) -> tuple:
        return positions, tf.stack(list(tf.io.parse_example(rows, spec).values()), axis=1)

    return Recipe(
        read=lambda: numbered(tf.data.TFRecordDataset(path)),
        rows_read=GROUP,
        batch=BATCH,
        stages=(Stage(name="parse", apply=parse),),
    )


def in_python(positions: tf.Tensor, image: tf.Tensor) -> tuple:
    """Python code holds the interpreter's lock: one thread of it runs, however many there are."""

    def count(pixels: np.ndarray) -> np.int64:
        return np.int64(sum(value * value for value in pixels.ravel().tolist() * 4))

    with tf.control_dependencies([tf.numpy_function(count, [image], tf.int64)]):
        return positions, tf.identity(image)


def looked_up(positions: tf.Tensor, image: tf.Tensor) -> tuple:
    """Asks another machine about every example."""

    def ask(position: np.ndarray) -> np.bool_:
        time.sleep(0.02)
        return np.bool_(True)

    with tf.control_dependencies([tf.numpy_function(ask, [positions], tf.bool)]):
        return positions, tf.identity(image)


def moved(position: tf.Tensor, image: tf.Tensor) -> tuple:
    augmentation = Augmentation(rotate_degrees=20.0, zoom=0.2, shift=0.2, hue=0.2, contrast=0.5)
    for seed in range(3):
        image = augment_image(image, position, augmentation=augmentation, seed=seed)
    return position, image


def hashed_text(folder: pathlib.Path, words: int = 400) -> Recipe:
    """Words that are hashed on the host every time they are read."""
    text = " ".join(f"word{i}" for i in range(words)).encode()
    path = write_records(folder, [text] * 256)

    def hash_words(positions: tf.Tensor, texts: tf.Tensor) -> tuple:
        parts = tf.strings.split(tf.strings.lower(texts))
        ids = parts.with_flat_values(tf.strings.to_hash_bucket_strong(parts.flat_values, 1000, [1, 2]))
        return positions, tf.cast(ids[:, :64].to_tensor(shape=[GROUP, 64]), tf.int32)

    return Recipe(
        read=lambda: numbered(tf.data.TFRecordDataset(path)),
        rows_read=GROUP,
        batch=BATCH,
        stages=(Stage(name="preprocess", apply=hash_words),),
    )


def huge_tensors() -> Recipe:
    """2 MB an example, which are there in groups, and are copied into batches."""
    group = (tf.range(GROUP, dtype=tf.int64), tf.zeros([GROUP, 1 << 19]))
    return Recipe(
        read=lambda: tf.data.Dataset.from_tensors(group).repeat(),
        rows_read=GROUP,
        batch=BATCH,
    )


def shared_memory(*batch: object) -> tuple:
    """The accelerator works in the host's memory: nothing is copied to it."""
    return batch


def slow_copy(*batch: object) -> tuple:
    """A bus that takes 50 ms a batch."""

    def wait() -> np.bool_:
        time.sleep(0.05)
        return np.bool_(True)

    with tf.control_dependencies([tf.numpy_function(wait, [], tf.bool)]):
        return tf.nest.map_structure(tf.identity, batch)
