"""Smoothed and weighted losses, against NumPy and against Keras."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from pipeline.data.input.training import Mixed, TargetsOfBatch
from pipeline.training.engine import strategy as strategy_lib
from pipeline.training.engine.batches import distributed
from pipeline.training.engine.step import inner_loop, train_step
from pipeline.training.tasks.classification import Binary, Multiclass, Regression
from pipeline.training.tasks.objective import Objective

DRAW = np.random.default_rng(0)
X = DRAW.normal(size=(12, 3)).astype("float32")
LOGITS = DRAW.normal(size=(12, 3), scale=3.0).astype("float32")
Y = np.arange(12, dtype="int32") % 3
WEIGHTS = (0.5, 1.0, 4.0)
SMOOTHING = 0.2
WAYS = [  # strategy, and micro-batches: the last has several of both
    *(pytest.param("one_device", parts, marks=pytest.mark.slow) for parts in (1, 2)),
    ("mirrored", 2),
]


def test_many_classes_against_numpy():
    losses = Objective(task=Multiclass(), label_smoothing=SMOOTHING, class_weights=WEIGHTS).losses(Y, LOGITS)
    exact = LOGITS.astype("float64")
    logs = exact - np.log(np.exp(exact).sum(axis=1, keepdims=True))
    targets = np.eye(3)[Y] * (1 - SMOOTHING) + SMOOTHING / 3
    np.testing.assert_allclose(losses, -(targets * logs).sum(axis=1) * np.array(WEIGHTS)[Y], rtol=1e-5)


def test_many_classes_against_keras():
    losses = Objective(task=Multiclass(), label_smoothing=SMOOTHING, class_weights=WEIGHTS).losses(Y, LOGITS)
    theirs = keras.losses.CategoricalCrossentropy(from_logits=True, label_smoothing=SMOOTHING)
    weights = np.array(WEIGHTS, "float32")[Y]
    mean = theirs(np.eye(3, dtype="float32")[Y], LOGITS, sample_weight=weights)
    assert float(mean) == pytest.approx(float(tf.reduce_mean(losses)), rel=1e-5)


def test_two_classes_against_numpy():
    labels, logits = Y % 2, LOGITS[:, :1]
    losses = Objective(task=Binary(), label_smoothing=SMOOTHING, class_weights=(1.0, 3.0)).losses(
        labels, logits
    )
    exact, targets = logits[:, 0].astype("float64"), labels * (1 - SMOOTHING) + SMOOTHING / 2
    plain = targets * np.log1p(np.exp(-exact)) + (1 - targets) * np.log1p(np.exp(exact))
    np.testing.assert_allclose(losses, plain * np.where(labels, 3.0, 1.0), rtol=1e-5)


@pytest.mark.parametrize(("task", "columns"), [(Binary(), 1), (Multiclass(), 3), (Regression(), 1)])
def test_without_either_the_losses_are_the_tasks(task, columns):
    labels, logits = Y % 2, LOGITS[:, :columns]
    np.testing.assert_array_equal(Objective(task=task).losses(labels, logits), task.losses(labels, logits))


def test_examples_weigh_what_their_weight_is_to_the_mean():
    weights = DRAW.uniform(0, 300, 12).astype("float32")
    weights[3] = 0.0
    rest = {"label_smoothing": SMOOTHING, "class_weights": WEIGHTS}
    plain = Objective(task=Multiclass(), **rest).losses(Y, LOGITS)
    weighted = Objective(task=Multiclass(), mean_weight=150.0, **rest)
    expected = plain.numpy().astype("float64") * weights / 150.0
    np.testing.assert_allclose(weighted.losses((Y, weights), LOGITS), expected, rtol=1e-6)
    np.testing.assert_array_equal(weighted.hits((Y, weights), LOGITS), Multiclass().hits(Y, LOGITS))


def test_hits_and_predictions_are_the_tasks():
    objective = Objective(task=Multiclass(), label_smoothing=SMOOTHING, class_weights=WEIGHTS)
    np.testing.assert_array_equal(objective.hits(Y, LOGITS), Multiclass().hits(Y, LOGITS))
    np.testing.assert_array_equal(objective.predictions(LOGITS), Multiclass().predictions(LOGITS))


def linear() -> keras.Model:
    inputs = keras.Input((3,), name="numeric")
    return keras.Model([inputs], keras.layers.Dense(1, kernel_initializer="ones")(inputs))


def fitted(**weights: object) -> list[np.ndarray]:
    """What `model.fit` makes of the weights in one step, with smoothing and weights of its own."""
    model = linear()
    loss = keras.losses.BinaryCrossentropy(from_logits=True, label_smoothing=SMOOTHING)
    model.compile(keras.optimizers.SGD(0.5), loss)
    labels = (Y % 2).astype("float32")[:, None]
    model.fit(X, labels, batch_size=12, shuffle=False, verbose=0, **weights)
    return model.get_weights()


def stepped(objective: Objective, targets: TargetsOfBatch, name: str, parts: int) -> list[np.ndarray]:
    """What a step of ours makes of the weights, under a strategy and in micro-batches."""
    strategy = strategy_lib.create(name)
    with strategy.scope():
        model, optimizer = linear(), keras.optimizers.SGD(0.5)
        optimizer.build(model.trainable_variables)
    step = train_step(model, optimizer, task=objective, global_batch=12, micro_batches=parts)

    def batches(context: tf.distribute.InputContext) -> tf.data.Dataset:
        examples = tf.data.Dataset.from_tensor_slices(({"numeric": X}, targets))
        return examples.batch(context.get_per_replica_batch_size(12), drop_remainder=True)

    tally = inner_loop(strategy, step, iter(distributed(strategy, batches)))(1)
    losses = objective.losses(targets, X.sum(axis=1, keepdims=True))
    assert tally.loss == pytest.approx(float(tf.reduce_sum(losses)), rel=1e-5)
    return model.get_weights()


@pytest.mark.parametrize(("name", "parts"), WAYS)
def test_a_step_is_that_of_fit(name, parts):
    objective = Objective(task=Binary(), label_smoothing=SMOOTHING, class_weights=(0.5, 4.0))
    found = stepped(objective, Y % 2, name, parts)
    for ours, theirs in zip(found, fitted(class_weight={0: 0.5, 1: 4.0}), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(("name", "parts"), WAYS)
def test_a_weighted_step_is_that_of_fit(name, parts):
    """Keras (3.15) divides the sum of weight × loss by the number of examples, not by their weights."""
    objective = Objective(task=Binary(), label_smoothing=SMOOTHING, class_weights=(0.5, 4.0), mean_weight=3.0)
    weights = np.array([0, 0, 0, 0, 0, 0, 90, 1, 2, 3, 4, 5], "float32")  # none in the first replica or part
    found = stepped(objective, (Y % 2, weights), name, parts)
    by_class = np.where(Y % 2, 4.0, 0.5)
    for ours, theirs in zip(found, fitted(sample_weight=weights / 3 * by_class), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(("name", "parts"), WAYS)
def test_a_batch_without_weight_changes_nothing(name, parts):
    objective = Objective(task=Binary(), mean_weight=3.0)
    for after, before in zip(
        stepped(objective, (Y % 2, np.zeros(12, "float32")), name, parts), linear().get_weights(), strict=True
    ):
        np.testing.assert_array_equal(after, before)


SHARES = np.linspace(0, 1, 12, dtype="float32")
OTHER = np.arange(12) % 5 % 3  # labels that an example is mixed with


def test_the_loss_of_a_mixed_example_is_that_of_its_soft_label():
    """By NumPy: a cross-entropy with the shares as label."""
    soft = np.zeros((12, 3))
    soft[np.arange(12), Y] += SHARES
    soft[np.arange(12), OTHER] += 1 - SHARES
    logits = LOGITS.astype("float64")
    log_probabilities = logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))
    found = Objective(task=Multiclass()).losses(Mixed(own=Y, other=OTHER, shares=SHARES), LOGITS)
    np.testing.assert_allclose(found, -(soft * log_probabilities).sum(axis=1), rtol=1e-5)


def test_each_side_of_a_mixed_example_has_its_own_weights():
    objective = Objective(
        task=Multiclass(), label_smoothing=SMOOTHING, class_weights=WEIGHTS, mean_weight=2.0
    )
    own, other = (Y, np.full(12, 3, "float32")), (OTHER, np.arange(12, dtype="float32"))
    mixed = Mixed(own=own, other=other, shares=SHARES)
    parts = [objective.losses(side, LOGITS).numpy().astype("float64") for side in (own, other)]
    np.testing.assert_allclose(
        objective.losses(mixed, LOGITS), SHARES * parts[0] + (1 - SHARES) * parts[1], rtol=1e-5
    )
    hits = [Multiclass().hits(labels, LOGITS).numpy() for labels in (Y, OTHER)]
    np.testing.assert_allclose(
        objective.hits(mixed, LOGITS), SHARES * hits[0] + (1 - SHARES) * hits[1], rtol=1e-6
    )
    assert objective.labels(mixed) is Y


@pytest.mark.parametrize(("name", "parts"), WAYS)
def test_a_step_on_mixed_examples_is_that_of_fit_on_soft_labels(name, parts):
    model = linear()
    model.compile(keras.optimizers.SGD(0.5), keras.losses.BinaryCrossentropy(from_logits=True))
    soft = SHARES * (Y % 2) + (1 - SHARES) * (OTHER % 2)
    model.fit(X, soft[:, None], batch_size=12, shuffle=False, verbose=0)
    mixed = Mixed(own=Y % 2, other=OTHER % 2, shares=SHARES)
    found = stepped(Objective(task=Binary()), mixed, name, parts)
    for ours, theirs in zip(found, model.get_weights(), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("task", "outputs", "labels"),
    [(Binary(), 1, [0, 1, 1]), (Multiclass(), 4, [0, 3, 1]), (Regression(), 1, [0.5, -1.0, 2.0])],
)
def test_each_member_learns_by_its_own_loss(task, outputs, labels):
    logits = DRAW.normal(size=(3, 5, outputs)).astype("float32")
    labels = np.array(labels, "float32" if isinstance(task, Regression) else "int32")
    objective = Objective(task=task)
    own = [np.asarray(task.losses(labels, logits[:, member])) for member in range(5)]
    np.testing.assert_allclose(objective.losses(labels, logits), np.mean(own, axis=0), rtol=1e-5)
    hits = task.hits(labels, logits.mean(axis=1))
    np.testing.assert_array_equal(objective.hits(labels, logits), hits)
