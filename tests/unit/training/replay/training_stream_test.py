"""What is replayed is what was trained on, bit for bit, however the run was killed, resumed and spread."""

import pathlib

import numpy as np
import pytest
import tensorflow as tf

from pipeline.data.dataset.selection import select
from pipeline.data.input.batches import training_batches
from pipeline.data.preprocessing.preprocess import Preprocess
from pipeline.data.reading.sharding import Share
from pipeline.data.schema.feature_types import Image, Label
from pipeline.data.schema.schema import Schema
from pipeline.training.experiment import data
from pipeline.training.replay.stream import TrainingStream, open_stream, raw_features
from pipeline.training.state import run_record
from pipeline.training.state import workdir as files
from tests.shared import pictures
from tests.shared.parsed import parsed
from tests.shared.recorded import Ledger, global_batch
from tests.shared.small_run import small_config
from tests.shared.tiny_dataset import describe, write_dataset

pytestmark = pytest.mark.slow

IMAGES = Schema(
    name="pictures",
    features=(Image(name="image", height=9, width=7, channels=3), Label(name="y", classes=("no", "yes"))),
)
CHANGES = {"crop_area": (0.3, 1.0), "flip": True, "brightness": 0.2, "mixup": 0.4, "cutmix": 1.0}


def opened(workdir: pathlib.Path) -> TrainingStream:
    found = files.existing(workdir)
    return open_stream(found, run_record.read(found.run))


@pytest.fixture(scope="module")
def trained(killed_mixture) -> tuple[TrainingStream, Ledger]:
    workdir, ledger = killed_mixture
    return opened(workdir), ledger


def test_every_step_of_a_killed_and_spread_mixture_is_what_was_trained_on(trained):
    stream, ledger = trained
    assert {len(replicas) for replicas in ledger.values()} == {1, 2}
    for step in range(min(ledger), max(ledger) + 1):
        assert_same(stream.batch(step), global_batch(ledger[step]))


def test_each_record_is_the_one_that_its_example_was_made_of(trained):
    """Each record, read by its place in its file, gives the inputs that were trained on."""
    stream, ledger = trained
    datasets = set()
    for step, records in zip((3, 12, 30), (stream.records(step) for step in (3, 12, 30)), strict=True):
        raw = raw_features(stream.data, records)
        columns = {name: np.stack([each[name] for each in raw]) for name in raw[0]}
        inputs, labels = global_batch(ledger[step])
        assert columns["positive"].tolist() == labels.tolist()
        again = stream.preprocess({name: tf.constant(column.tolist()) for name, column in columns.items()})
        for name, each in inputs.items():
            np.testing.assert_allclose(again[name], each, rtol=1e-6)
        datasets |= {(record.dataset.rpartition("/")[2], record.split) for record in records}
    assert datasets == {("main", "train"), ("other", "validation")}


def test_augmented_images_are_those_of_two_hosts(tmp_path):
    noise = [pictures.noise(9, 7, 3, seed=i) for i in range(24)]
    examples = [{"image": pictures.encode(pixels, "PNG"), "y": i % 2} for i, pixels in enumerate(noise)]
    selection = select(write_dataset(tmp_path / "pictures", IMAGES, {"train": examples}), "train")
    config = small_config()
    config.global_batch = 8
    config.augmentation.update(CHANGES)
    preprocess = Preprocess(IMAGES, describe(IMAGES, examples))
    stream = TrainingStream(asked=parsed(config).data, data=selection, preprocess=preprocess)
    parts = []
    for host in (0, 1):
        share = Share(global_batch=8, replicas=4, shard_count=2, shard_index=host)
        plan = data.read_plan(parsed(config).data, selection, share=share, position=5 * 8)
        batches = training_batches(plan, preprocess, augmentation=parsed(config).data.augmentation)
        parts += list(batches.take(2).as_numpy_iterator())
    assert_same(stream.batch(5), global_batch(dict(enumerate(parts))))


def assert_same(batch: tuple, expected: tuple) -> None:
    """Bit for bit."""
    tf.nest.assert_same_structure(batch, expected)
    for ours, theirs in zip(tf.nest.flatten(batch), tf.nest.flatten(expected), strict=True):
        assert ours.numpy().tobytes() == theirs.tobytes()
