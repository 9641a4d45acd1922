"""The weights that evaluate a step, and the loss of an example under them, which is that of training."""

import dataclasses
import pathlib

import keras
import numpy as np
import pytest

from pipeline.base.errors import InputError
from pipeline.training.replay.evaluator import (
    Weights,
    chosen_checkpoint,
    example_evaluator,
    nearest_checkpoint,
)
from pipeline.training.state import checkpoints
from pipeline.training.state.checkpoints import Entry, Manifest
from pipeline.training.tasks.classification import Binary
from pipeline.training.tasks.objective import Objective


@pytest.fixture
def root(tmp_path) -> pathlib.Path:
    """Checkpoints of the steps 10, 20 and 30."""
    for step in (10, 20, 30):
        folder = checkpoints.temporary(tmp_path, step)
        folder.mkdir()
        (folder / "data").write_bytes(b"weights")
        checkpoints.write_manifest(folder, Manifest(step=step, saved="", run={}, metrics={}, variables={}))
        checkpoints.publish_checkpoint(folder)
    return tmp_path


@pytest.mark.parametrize(("step", "chosen"), [(9, 10), (10, 10), (29, 20), (500, 30), (0, 10)])
def test_the_newest_before_a_step_else_the_oldest_after_it(root, step: int, chosen: int):
    assert nearest_checkpoint(root, step, damage_of=Entry.damage) == Weights(step=chosen)


def test_a_damaged_one_is_passed_over_and_named(root):
    (checkpoints.path_of(root, 20) / "data").write_bytes(b"Weights")
    found = nearest_checkpoint(root, 25, damage_of=Entry.damage)
    assert found.step == 10
    assert "step-00000020/data: SHA-256" in found.damaged[0]


def test_a_run_without_checkpoints_has_its_initial_weights(tmp_path):
    assert nearest_checkpoint(tmp_path, 5, damage_of=Entry.damage) == Weights(step=0)
    assert "as the run keeps no checkpoint" in Weights(step=0).seen_from(5)


def test_a_run_whose_checkpoints_are_all_damaged_has_its_initial_weights(root):
    for step in (10, 20, 30):
        (checkpoints.path_of(root, step) / "data").write_bytes(b"")
    found = nearest_checkpoint(root, 5, damage_of=Entry.damage)
    assert (found.step, len(found.damaged)) == (0, 3)
    assert "as every checkpoint of the run is damaged" in found.seen_from(5)


def test_one_can_be_asked_for(root):
    assert chosen_checkpoint(root, 20, damage_of=Entry.damage) == Weights(step=20)
    assert chosen_checkpoint(root, 0, damage_of=Entry.damage) == Weights(step=0)
    with pytest.raises(InputError, match=r"received no such checkpoint; expected 0, .* or one of 10, 20, 30"):
        chosen_checkpoint(root, 15, damage_of=Entry.damage)


@pytest.mark.parametrize(
    ("step", "said"),
    [
        (20, "step 20, which this step was taken from"),
        (21, "1 step before"),
        (5, "15 steps after: none before it is kept"),
    ],
)
def test_words_tell_how_far_it_is(step: int, said: str):
    assert said in Weights(step=20).seen_from(step)


def test_words_tell_that_a_run_has_averages_too():
    assert (
        Weights(step=20, are_averaged_too=True)
        .seen_from(21)
        .endswith("as they are trained, not their averages")
    )


def test_losses_are_smoothed_and_weighted_as_in_training():
    inputs = keras.Input((1,), name="x")
    model = keras.Model({"x": inputs}, keras.layers.Dense(1, kernel_initializer="ones")(inputs))
    objective = Objective(task=Binary(), label_smoothing=0.2, class_weights=(1.0, 3.0))
    logits, labels = np.array([[2.0], [2.0]], "float32"), np.array([0, 1], "int32")
    losses, predictions = example_evaluator(model, objective)({"x": logits}, labels)
    right, wrong = np.log1p(np.exp(-2.0)), np.log1p(np.exp(2.0))
    np.testing.assert_allclose(
        losses, [0.9 * wrong + 0.1 * right, 3 * (0.9 * right + 0.1 * wrong)], rtol=1e-5
    )
    weighted = dataclasses.replace(objective, mean_weight=4.0)
    twice_and_never, _ = example_evaluator(model, weighted)(
        {"x": logits}, (labels, np.array([8.0, 0.0], "float32"))
    )
    np.testing.assert_allclose(twice_and_never, [2 * losses[0], 0.0], rtol=1e-6)
    np.testing.assert_allclose(predictions[:, 1], 1 / (1 + np.exp(-2.0)), rtol=1e-5)
