"""The training step agrees with a plain loop; each planted fault of it is found."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from ml_collections import ConfigDict

from pipeline.data.dataset.manifest import Dataset
from pipeline.data.schema.feature_types import Label, Numeric
from pipeline.data.schema.schema import Schema
from pipeline.report.comparison import Comparison, format_verdict
from pipeline.training.engine import step, strategy
from pipeline.training.parity import subject, updates
from tests.shared.parsed import parsed
from tests.shared.small_run import small_config, write_small_dataset
from tests.shared.tiny_dataset import write_dataset


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    return write_small_dataset(tmp_path_factory.mktemp("tiny") / "1.0.0")


def subject_of(config: ConfigDict, dataset: Dataset) -> subject.Subject:
    return subject.of_experiment(parsed(config), dataset)


def compared(dataset: Dataset, *, global_batch: int = 16, clip_norm: float = 0.05) -> dict[str, Comparison]:
    config = small_config()
    config.global_batch, config.optimizer.clip_norm = global_batch, clip_norm
    one, many = strategy.create("one_device"), strategy.create("mirrored")
    return {each.name: each for each in updates.compare(subject_of(config, dataset), one, many)}


def test_the_step_agrees_in_every_way(dataset):
    found = compared(dataset)
    assert list(found) == ["sparse", "replicas", "micro-batches"]
    for each in found.values():
        assert each.differences and not each.skipped
        assert each.differences[0].errors["change"] < 1e-5


@pytest.mark.slow
def test_the_plain_loop_has_the_objective_of_the_step(dataset):
    config = small_config()
    config.train.label_smoothing, config.train.class_weights = 0.2, (1.0, 3.0)
    asked, plain = (
        subject_of(config, dataset),
        subject_of(small_config(), dataset),
    )
    batches = asked.batches(3)
    found = updates.step_changes(asked, batches, strategy=strategy.create("one_device"), micro_batches=1)
    names = [variable.path for variable in asked.model().trainable_variables]
    same, other = (
        updates.differences(names, found, updates.plain_loop(each, batches)) for each in (asked, plain)
    )
    assert max(each.errors["change"] for each in same) < 1e-5
    assert max(each.errors["change"] for each in other) > 1e-2


@pytest.mark.slow
def test_weighted_examples_agree_in_every_way(tmp_path):
    features = (Numeric(name="x"), Numeric(name="w"), Label(name="y", classes=("no", "yes")))
    draw = np.random.default_rng(0).uniform(-1, 1, (100, 3)).tolist()
    examples = [{"x": x, "w": max(0.0, 300 * w), "y": int(y > 0)} for x, w, y in draw]
    dataset = write_dataset(tmp_path / "1.0.0", Schema(name="w", features=features), {"train": examples})
    config = small_config()
    config.train.update({"example_weights": "w", "class_weights": (1.0, 3.0), "label_smoothing": 0.1})
    asked, one, many = (
        subject_of(config, dataset),
        strategy.create("one_device"),
        strategy.create("mirrored"),
    )
    for each in updates.compare(asked, one, many):
        assert each.differences and not each.skipped
        assert max(difference.errors["change"] for difference in each.differences) < 1e-5


@pytest.mark.slow
def test_a_regression_in_millions_agrees(tmp_path):
    schema = Schema(name="prices", features=(Numeric(name="x"), Label(name="y", task="regression")))
    examples = [{"x": float(number), "y": 1e6 * (number % 7)} for number in range(100)]
    dataset = write_dataset(tmp_path / "1.0.0", schema, {"train": examples})
    asked, many = subject_of(small_config(), dataset), strategy.create("mirrored")
    batches = asked.batches(3)
    found = updates.step_changes(asked, batches, strategy=many, micro_batches=1)
    names = [variable.path for variable in asked.model().trainable_variables]
    compared = updates.differences(names, found, updates.plain_loop(asked, batches))
    assert len(compared) > 3
    assert max(each.errors["change"] for each in compared) < 1e-5


def _as_keras_takes_it(gradient: tf.Tensor | tf.IndexedSlices, variable: keras.Variable) -> tf.Tensor:
    """Keras's Adam adds up the squares of rows of equal ids, and not the rows (3.15)."""
    if not isinstance(gradient, tf.IndexedSlices):
        return gradient
    rows = gradient.indices, variable.shape[0]
    whole = tf.math.unsorted_segment_sum(gradient.values, *rows)
    return tf.sign(whole) * tf.sqrt(tf.math.unsorted_segment_sum(gradient.values**2, *rows))


@pytest.mark.slow
def test_gradients_of_equal_ids_that_are_not_summed_are_found(dataset, monkeypatch):
    asked, one = subject_of(small_config(), dataset), strategy.create("one_device")
    batches = asked.batches(3)
    exact = updates.plain_loop(asked, batches)
    monkeypatch.setattr(step, "dense", _as_keras_takes_it)
    found = updates.step_changes(asked, batches, strategy=one, micro_batches=1)
    names = [variable.path for variable in asked.model().trainable_variables]
    errors = {each.name: each.errors["change"] for each in updates.differences(names, found, exact)}
    assert errors["wide/table"] > 0.1 and errors["embeddings/table"] > 0.1


@pytest.mark.slow
def test_clipping_in_each_replica_is_found(dataset, monkeypatch):
    def clipped_apart(self: step.Update, gradients: list[tf.Tensor], *, loss: tf.Tensor) -> tf.Tensor:
        clipped, _ = tf.clip_by_global_norm(gradients, 0.05)
        summed = tf.distribute.get_replica_context().all_reduce("SUM", clipped)
        self._optimizer.apply(summed, self._variables)
        return tf.math.is_finite(loss)

    monkeypatch.setattr(step.Update, "_apply", clipped_apart)
    found = compared(dataset)
    assert found["replicas"].found
    assert not found["micro-batches"].found or found["sparse"].found


@pytest.mark.slow
def test_micro_batches_of_which_only_the_last_counts_are_found(dataset, monkeypatch):
    monkeypatch.setattr(step, "_added", lambda one, other: other)
    found = compared(dataset)
    assert found["micro-batches"].found
    assert not found["sparse"].found and not found["replicas"].found


@pytest.mark.slow
def test_a_batch_that_cannot_be_parted_is_told(dataset):
    found = compared(dataset, global_batch=15)
    assert found["replicas"].skipped == "config.global_batch=15 is no multiple of 2"
    assert not found["sparse"].skipped


@pytest.mark.slow
def test_steps_that_are_not_finite_are_not_said_to_agree(tmp_path):
    schema = Schema(name="prices", features=(Numeric(name="x"), Label(name="y", task="regression")))
    examples = [{"x": float(number), "y": 1e30 * (number % 7)} for number in range(100)]
    dataset = write_dataset(tmp_path / "1.0.0", schema, {"train": examples})
    config, one = small_config(), strategy.create("one_device")
    config.train.standardise_labels = False
    found = list(updates.compare(subject_of(config, dataset), one, one))
    assert all("weights that are not finite" in each.skipped for each in found)
    assert format_verdict(found) == "verdict: none; not compared: sparse, replicas, micro-batches"


def normalized(*, layers: int) -> keras.Model:
    keras.utils.set_random_seed(0)
    inputs = {
        "numeric": keras.Input((2,), name="numeric"),
        "categories": keras.Input((1,), name="categories"),
    }
    hidden = inputs["numeric"]
    for _ in range(layers):
        hidden = keras.layers.BatchNormalization()(keras.layers.Dense(8)(hidden))
        hidden = keras.layers.ReLU()(hidden)
    return keras.Model(inputs, keras.layers.Dense(1)(hidden))


# Rounding of one step changes the next one by a tenth, as in MobileNetV2.
@pytest.mark.slow
def test_only_steps_that_rounding_does_not_decide_are_compared(dataset, monkeypatch):
    monkeypatch.setattr(subject, "build_model", lambda config, **rest: normalized(layers=16))
    found = compared(dataset, clip_norm=0.0)
    assert not found["sparse"].found and not found["replicas"].found
    assert found["sparse"].differences


@pytest.mark.slow
def test_batch_normalization_is_not_held_against_micro_batches(dataset, monkeypatch):
    monkeypatch.setattr(subject, "build_model", lambda config, **rest: normalized(layers=1))
    found = compared(dataset)
    assert "of its own, by design" in found["micro-batches"].skipped
    assert found["replicas"].differences[0].errors["change"] < 1e-3
    # What comes after takes the mean away, so the gradient of this bias is rounding.
    assert "dense/bias" not in [each.name for each in found["replicas"].differences]
    assert "dense/kernel" in [each.name for each in found["replicas"].differences]
