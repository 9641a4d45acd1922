"""The benchmark of training: ours and `fit` do the same work, and figures are held against the targets."""

import dataclasses
from collections.abc import Callable

import keras
import numpy as np
import pytest
import tensorflow as tf

from benchmarks.training.losses import AccuracyOfMembers, AccuracyOfNextToken, OfMembers, OfNextToken
from benchmarks.training.subjects import SUBJECTS
from benchmarks.training.targets import TARGETS, beside_torch, cases, verdicts
from benchmarks.training.workloads import Workload
from pipeline.training.experiment import optimizer
from pipeline.training.tasks.objective import Objective
from pipeline.training.tasks.registry import TASKS


def linear(made: list[keras.Model]) -> Workload:
    """A linear model on one batch of 8; each new model is added to `made`."""
    draw = np.random.default_rng(0)
    inputs = draw.normal(size=(8, 3)).astype(np.float32)
    batch = {"numeric": inputs}, (inputs.sum(axis=1) > 0).astype(np.int32)

    def model() -> keras.Model:
        numbers = keras.Input((3,), name="numeric")
        one = keras.Model({"numeric": numbers}, keras.layers.Dense(1, kernel_initializer="ones")(numbers))
        one.optimizer = optimizer.Adam(0.1)
        one.optimizer.build(one.trainable_variables)
        made.append(one)
        return one

    return Workload(
        name="linear",
        model=model,
        optimizer=lambda: keras.optimizers.Adam(0.1),
        batches=tf.data.Dataset.from_tensors(batch).repeat(),
        task=TASKS["binary"],
        loss=keras.losses.BinaryCrossentropy(from_logits=True),
        accuracy=lambda: keras.metrics.BinaryAccuracy(threshold=0.0),
        global_batch=8,
    )


@pytest.mark.parametrize("steps_per_loop", [1, 4])
def test_ours_and_fit_learn_the_same_in_as_many_steps(steps_per_loop):
    made = []
    workload = linear(made)
    ours = SUBJECTS["ours"](workload, steps_per_loop=steps_per_loop)
    fit = SUBJECTS["fit"](workload, steps_per_loop=steps_per_loop)
    assert ours(16) > 0
    assert fit(8) > 0  # two epochs, of which the second is timed
    assert [int(np.asarray(model.optimizer.iterations)) for model in made] == [16, 16]
    np.testing.assert_allclose(*(np.asarray(model.weights[0]) for model in made), rtol=1e-5)


def test_averages_of_the_weights_do_not_change_what_ours_learns():
    made = []
    workload = linear(made)
    for each in (workload, dataclasses.replace(workload, ema=0.5)):
        SUBJECTS["ours"](each, steps_per_loop=4)(8)
    np.testing.assert_array_equal(*(np.asarray(model.weights[0]) for model in made))


@pytest.mark.parametrize(
    ("task", "shape", "labels", "loss", "accuracy"),
    [
        ("binary", (5, 4, 1), [0, 1, 1, 0, 1], OfMembers, AccuracyOfMembers),
        # A row of two documents, one that is full, and one with padding.
        (
            "next_token",
            (3, 4, 3),
            [[-1, 2, -1, 0], [-1, 1, 1, 2], [-1, 0, -1, -1]],
            OfNextToken,
            AccuracyOfNextToken,
        ),
    ],
)
def test_fit_has_the_loss_and_the_accuracy_of_the_task(
    task: str,
    shape: tuple[int, ...],
    labels: list,
    loss: Callable[[], keras.losses.Loss],
    accuracy: Callable[[], keras.metrics.Metric],
):
    logits = tf.constant(np.random.default_rng(0).normal(size=shape).astype(np.float32))
    labels, objective, measured = tf.constant(labels), Objective(task=TASKS[task]), accuracy()
    np.testing.assert_allclose(loss()(labels, logits), objective.mean_loss(labels, logits), rtol=1e-5)
    measured.update_state(labels, logits)
    hits, counts = objective.hits(labels, logits), objective.counts(labels)
    expected = np.average(hits, weights=counts)
    np.testing.assert_allclose(measured.result(), expected, rtol=1e-6)


def test_a_target_is_held_up_to_its_limit():
    costs = dict.fromkeys(cases(["wide_deep", "resnet"]), 1.0)
    costs[TARGETS[0].case] = 0.95
    assert all(held for _, held in verdicts(costs))
    costs[TARGETS[0].case] = 0.96
    assert [held for _, held in verdicts(costs)] == [False, True, True, True]
    assert verdicts(costs)[0][0].endswith("0.960, at most 0.95: MISSED")


def test_only_the_chosen_workloads_are_measured():
    assert {case.workload for case in cases(["resnet"])} == {"resnet"}
    assert len(verdicts(dict.fromkeys(cases(["resnet"]), 1.0))) == 1


def test_torch_stands_beside_ours_and_has_no_target():
    assert not beside_torch(dict.fromkeys(cases(["resnet"]), 1.0))
    costs = dict.fromkeys(cases(["resnet"], torch=True), 1.0)
    costs[next(case for case in costs if case.subject == "torch")] = 2.0
    assert beside_torch(costs) == ["resnet, ours, 32 a loop / resnet, torch, 1 a loop: 0.500, no target"]
    assert len(verdicts(costs)) == 1


@pytest.mark.parametrize("name", ["tabular", "resnet18", "transformer"])
def test_ours_costs_at_most_a_twentieth_more_than_fit_and_torch(name: str):
    alone, costs = cases([name]), dict.fromkeys(cases([name], torch=True), 1.0)
    assert [case.subject for case in alone] == ["ours", "fit"]
    assert len(verdicts(dict.fromkeys(alone, 1.0))) == 1  # without torch, its target is left out
    assert [held for _, held in verdicts(costs)] == [True, True]
    assert [held for _, held in verdicts({**costs, alone[0]: 1.06})] == [False, False]
    assert not beside_torch(costs)  # the verdicts have its line
