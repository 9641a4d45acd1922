"""Batches: static shapes, exact shares for every replica, padding that does not count."""

import numpy as np
import pytest
import tensorflow as tf

from pipeline.data import statistics as statistics_lib
from pipeline.data.augment import Augmentation
from pipeline.data.errors import InputError
from pipeline.data.features import Image, Label, Numeric
from pipeline.data.input import evaluation_batches, evaluation_steps, training_batches
from pipeline.data.manifest import Dataset
from pipeline.data.preprocess import Preprocess
from pipeline.data.schema import Schema
from pipeline.data.selection import select
from tests.data.training_images import augment_images
from tests.tiny_dataset import write_dataset

RECORDS = 21
SCHEMA = Schema(
    name="pictures",
    features=(
        Image(name="image", height=6, width=5, channels=1, encoding="png"),
        Numeric(name="x"),
        Label(name="y", task="multiclass", classes=("a", "b", "c")),
    ),
)


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    pixels = np.random.default_rng(0).integers(0, 256, (RECORDS, 6, 5, 1), np.uint8)
    rows = [{"image": tf.io.encode_png(pixels[i]).numpy(), "x": float(i), "y": i % 3} for i in range(RECORDS)]
    return write_dataset(tmp_path_factory.mktemp("pictures") / "1.0.0", SCHEMA, {"train": rows})


@pytest.fixture(scope="module")
def preprocess(dataset: Dataset) -> Preprocess:
    return Preprocess(SCHEMA, statistics_lib.load(dataset)["train"])


def context(replicas: int, pipelines: int = 1, pipeline: int = 0) -> tf.distribute.InputContext:
    return tf.distribute.InputContext(pipelines, pipeline, replicas)


def test_training_batches_have_static_shapes(dataset, preprocess):
    inputs, labels = training_batches(
        select(dataset, "train"), preprocess, global_batch=8, seed=0
    ).element_spec
    assert inputs["image"] == tf.TensorSpec((8, 6, 5, 1), tf.uint8)
    assert inputs["numeric"] == tf.TensorSpec((8, 1), tf.float32)
    assert inputs["categories"] == tf.TensorSpec((8, 1), tf.int32)
    assert labels == tf.TensorSpec((8,), tf.int32)


def test_two_hosts_share_each_global_batch_as_two_replicas_of_one_do(dataset, preprocess):
    def labels(replicas_context, count):
        batches = training_batches(
            select(dataset, "train"), preprocess, global_batch=4, seed=3, context=replicas_context
        )
        return [batch[0]["numeric"].numpy().ravel().tolist() for batch in batches.take(count)]

    one_host = labels(context(4), 24)
    first, second = (labels(context(4, pipelines=2, pipeline=p), 12) for p in (0, 1))
    two_hosts = [b for i in range(0, 12, 2) for b in (*first[i : i + 2], *second[i : i + 2])]
    assert two_hosts == one_host


@pytest.mark.parametrize("replicas", [1, 2, 4])
def test_evaluation_counts_every_example_once(dataset, preprocess, replicas):
    selection = select(dataset, "train")
    batches = evaluation_batches(selection, preprocess, global_batch=8, context=context(replicas))
    seen, count = [], 0
    for inputs, labels, mask in batches:
        assert labels.shape == mask.shape == (8 // replicas,)
        seen += inputs["numeric"].numpy()[mask.numpy() == 1.0].ravel().tolist()
        count += 1
    assert count == evaluation_steps(RECORDS, 8) * replicas
    assert len(set(seen)) == len(seen) == RECORDS


def test_a_batch_that_replicas_cannot_share_is_refused(dataset, preprocess):
    with pytest.raises(InputError, match=r"received 9; expected a positive multiple of the 2 replicas"):
        training_batches(select(dataset, "train"), preprocess, global_batch=9, seed=0, context=context(2))


def test_augmented_pixels_depend_on_nothing_but_seed_and_index(dataset, preprocess):
    augmentation = Augmentation(shift=0.2, rotate_degrees=20.0, zoom=0.1, flip=True)

    def pixels(position: int, global_batch: int, count: int) -> np.ndarray:
        batches = training_batches(
            select(dataset, "train"),
            preprocess,
            global_batch=global_batch,
            seed=5,
            position=position,
            augmentation=augmentation,
        )
        return np.concatenate([inputs["image"] for inputs, _ in batches.take(count)])

    whole = pixels(0, 10, 6)
    np.testing.assert_array_equal(pixels(26, 17, 2), whole[26:60])


def test_augmentation_moves_images_and_none_leaves_them_alone():
    images = tf.constant(np.random.default_rng(0).integers(0, 256, (64, 9, 9, 3), np.uint8))
    still = augment_images(images, augmentation=Augmentation(), seed=0)
    np.testing.assert_array_equal(still, images)
    flipped = augment_images(images, augmentation=Augmentation(flip=True), seed=0).numpy()
    mirrored = [np.array_equal(flipped[i], images[i].numpy()[:, ::-1]) for i in range(64)]
    kept = [np.array_equal(flipped[i], images[i].numpy()) for i in range(64)]
    assert all(a != b for a, b in zip(mirrored, kept, strict=True))
    assert 16 < sum(mirrored) < 48


def test_shift_uses_its_whole_range_and_no_more():
    column = np.zeros((500, 1, 21, 1), np.uint8)
    column[:, 0, 10] = 255
    augmentation = Augmentation(shift=0.25)
    moved = augment_images(tf.constant(column), augmentation=augmentation, seed=1)
    light = moved.numpy()[:, 0, :, 0].astype(float)
    place = (light @ np.arange(21)) / light.sum(axis=1)  # centre of mass, pixels
    limit = 0.25 * 21
    assert 10 - limit - 0.1 < place.min() < 10 - 0.8 * limit
    assert 10 + 0.8 * limit < place.max() < 10 + limit + 0.1


def test_augmentation_out_of_range_is_refused():
    with pytest.raises(InputError, match=r"augmentation 'zoom': received 2\.0"):
        Augmentation(zoom=2.0)
