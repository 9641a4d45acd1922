"""Groups in which training reads and prepares; weights of examples are the raw numbers of a column."""

import pathlib

import numpy as np
import pytest
import tensorflow as tf

from pipeline.data.dataset.selection import select
from pipeline.data.input import training
from pipeline.data.input.training import Targets, training_recipe
from pipeline.data.preprocessing.preprocess import Preprocess
from pipeline.data.reading.plan import plan_reading
from pipeline.data.reading.sharding import Share
from pipeline.data.schema.feature_types import Label, Numeric
from pipeline.data.schema.schema import Schema
from pipeline.data.statistics import loading
from tests.shared.tiny_dataset import write_dataset

SCHEMA = Schema(name="numbers", features=(Numeric(name="x"), Label(name="y", classes=("a", "b"))))


@pytest.mark.parametrize(
    ("records", "batch", "together"),
    [
        (3, 1, 3),  # an epoch
        (3, 2, 2),
        (3, 256, 256),  # a batch is never cut
        (100, 8, 12 * 8),
        (300, 8, 256),
    ],
)
def test_a_group_holds_an_epoch_at_most_and_a_batch_at_least(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, records: int, batch: int, together: int
):
    monkeypatch.setattr(training, "GROUP_ROWS", 256)
    rows = [{"x": float(i), "y": i % 2} for i in range(records)]
    dataset = write_dataset(tmp_path / "1.0.0", SCHEMA, {"train": rows})
    plan = plan_reading(select(dataset, "train"), share=Share(global_batch=batch), seed=0, shuffle="windows")
    assert training_recipe(plan, Preprocess(SCHEMA, loading.load(dataset)["train"])).turn == together


# The weights of examples are the raw numbers of their column.
LABELS = tf.constant([1, 0])


def test_without_a_column_the_labels_are_all():
    assert Targets()({"w": tf.constant([1.0, 2.0])}, LABELS) is LABELS
    assert Targets().weights_of(LABELS) is None


def test_a_record_holds_a_number_less_its_offset():
    targets = Targets(weights=Numeric(name="w", offset=0.1))
    stored = (np.array([0.3, 1e6]) - 0.1).astype("float32")
    labels, weights = found = targets({"w": tf.constant(stored)}, LABELS)
    assert labels is LABELS
    np.testing.assert_array_equal(weights, (stored.astype("float64") + 0.1).astype("float32"))
    assert targets.weights_of(found) is weights


def test_whole_numbers_weigh_too():
    _, weights = Targets(weights=Numeric(name="w", number="int64"))({"w": tf.constant([3, 2**40])}, LABELS)
    assert weights.dtype == tf.float32
    assert weights.numpy().tolist() == [3, 2**40]


def test_mixed_examples_have_the_targets_of_both():
    targets = Targets(weights=Numeric(name="w"))
    labels, weights = tf.constant([3, 1, 4, 1]), tf.constant([10.0, 20.0, 30.0, 40.0])
    shares = tf.constant([0.9, 0.9, 0.2, 0.2])
    found = targets({"w": weights}, labels, shares)
    assert [each.numpy().tolist() for each in found.own] == [[3, 1, 4, 1], [10, 20, 30, 40]]
    assert [each.numpy().tolist() for each in found.other] == [[1, 3, 1, 4], [20, 10, 40, 30]]
    assert found.shares is shares
    assert targets.weights_of(found) is found.own[1]
