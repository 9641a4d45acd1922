"""Ranking: losses and metrics of groups against plain loops and scikit-learn, and models of rows."""

import itertools
import math
from collections.abc import Iterator

import keras
import numpy as np
import pytest
import scipy.special
import tensorflow as tf
from sklearn import metrics as sklearn_metrics

from pipeline.data.schema.feature_types import Label
from pipeline.training.tasks.objective import Objective
from pipeline.training.tasks.ranking import OfGroups, lambda_loss, softmax_loss
from pipeline.training.tasks.registry import task_of

LABEL = Label(name="y", task="ranking", group_length=12)
TASK = task_of(LABEL)


def groups(number: int, *, ties: bool = False, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Labels and scores, [number, 12], of groups of 1 to 12 rows; some groups have no relevant row."""
    draw = np.random.default_rng(seed)
    shape = (number, LABEL.group_length)
    labels = np.maximum(0, draw.integers(-3, 5, shape))
    labels[::7] = 0
    labels[np.arange(shape[1]) >= draw.integers(1, shape[1] + 1, number)[:, None]] = -1
    scores = draw.integers(0, 4, shape) / 4 if ties else draw.normal(size=shape)
    return labels.astype("int32"), scores.astype("float32")


def each(labels: np.ndarray, scores: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yields each group without what fills it up."""
    for own, given in zip(labels, scores, strict=True):
        yield own[own >= 0], given[own >= 0].astype("float64")


def result(labels: np.ndarray, scores: np.ndarray, *, batch: int = 16) -> dict:
    accumulator = TASK.accumulator(LABEL)
    for start in range(0, len(labels), batch):
        part = slice(start, start + batch)
        accumulator.update(labels[part], scores[part].astype("float64"))
    return accumulator.result()


@pytest.mark.parametrize("ties", [False, True])
def test_ndcg_is_scikit_learns(ties: bool):
    labels, scores = groups(200, ties=ties)
    found = result(labels, scores)
    for key, k in (("ndcg_at_1", 1), ("ndcg_at_5", 5), ("ndcg_at_10", 10), ("ndcg", None)):
        # It refuses groups of one row, so a row that is worth nothing and stands last is added to all.
        expected = [
            sklearn_metrics.ndcg_score([[*(2.0**own - 1), 0.0]], [[*given, -99.0]], k=k)
            for own, given in each(labels, scores)
        ]
        assert found[key] == pytest.approx(np.mean(expected), abs=1e-9)
    assert found["irrelevant_groups"] == np.mean([not own.any() for own, _ in each(labels, scores)])


def test_the_reciprocal_rank_is_that_of_scikit_learn_where_one_row_is_relevant():
    labels, scores = groups(200)
    labels[labels > 0] = 0
    relevant = np.zeros(labels.shape)
    for row in range(100):  # the others have none
        at = np.flatnonzero(labels[row] >= 0)[-1]
        labels[row, at], relevant[row, at] = 1 + row % 3, 1
    lowest = np.where(labels < 0, -99.0, scores)
    expected = sklearn_metrics.label_ranking_average_precision_score(relevant[:100], lowest[:100])
    assert result(labels, scores)["mrr"] == pytest.approx(expected / 2, abs=1e-9)


@pytest.mark.parametrize(
    ("labels", "scores"),
    [
        ([0, 1, 0, 2], [1, 1, 1, 1]),
        ([0, 3, 0, 1, 1], [2, 1, 1, 1, 0]),
        ([1, 1, 1], [0, 0, 0]),
        ([0, 0, 4], [3, 3, 3]),
    ],
)
def test_equal_scores_give_the_mean_over_all_orders(labels: list[int], scores: list[int]):
    reciprocal, gain = [], []
    for order in itertools.permutations(range(len(labels))):
        if [scores[at] for at in order] == sorted(scores, reverse=True):
            ranked = [labels[at] for at in order]
            reciprocal.append(1 / (1 + next(at for at, own in enumerate(ranked) if own)))
            gain.append(sum((2**own - 1) / math.log2(at + 2) for at, own in enumerate(ranked)))
    best = sum((2**own - 1) / math.log2(at + 2) for at, own in enumerate(sorted(labels, reverse=True)))
    found = result(np.array([labels]), np.array([scores], np.float32))
    assert found["mrr"] == pytest.approx(np.mean(reciprocal), abs=1e-9)
    assert found["ndcg"] == pytest.approx(np.mean(gain) / best, abs=1e-9)


def test_a_score_that_is_no_number_leaves_no_metric():
    labels, scores = np.array([[0, 1, 2], [0, 1, -1]]), np.array([[1, np.nan, 2], [0, 1, np.nan]], np.float32)
    found = result(labels, scores)
    assert all(math.isnan(found[key]) for key in ("ndcg_at_10", "ndcg_at_1", "ndcg", "mrr", "loss"))
    only_filled_up = result(labels[1:], scores[1:])
    assert only_filled_up["ndcg"] == only_filled_up["mrr"] == 1.0


def test_only_groups_without_a_relevant_row_are_worth_nothing():
    found = result(np.array([[0, 0, -1]]), np.array([[1.0, 2.0, 3.0]], np.float32))
    assert {key: value for key, value in found.items() if value} == {"irrelevant_groups": 1.0}


def test_the_softmax_loss_is_a_cross_entropy_with_the_shares_of_gains():
    labels, scores = groups(50)
    expected = []
    for own, given in each(labels, scores):
        gains = 2.0**own - 1
        shares = gains / gains.sum() if gains.any() else gains
        expected.append(-(shares * scipy.special.log_softmax(given)).sum())
    np.testing.assert_allclose(softmax_loss(tf.constant(labels), tf.constant(scores)), expected, rtol=1e-5)


def of_pairs(own: np.ndarray, given: np.ndarray) -> float:
    """LambdaRank's loss of a group, pair by pair, as its paper writes it."""
    ranks = np.empty(len(own))
    ranks[np.argsort(-given, kind="stable")] = np.arange(1, len(own) + 1)
    gains = 2.0**own - 1
    best = (np.sort(gains)[::-1] / np.log2(np.arange(len(own)) + 2)).sum()
    found = 0.0
    for i, j in itertools.permutations(range(len(own)), 2):
        if own[i] > own[j]:
            change = abs(gains[i] - gains[j]) / best
            change *= abs(1 / np.log2(1 + ranks[i]) - 1 / np.log2(1 + ranks[j]))
            found += change * np.log2(1 + np.exp(-(given[i] - given[j])))
    return found


@pytest.mark.parametrize("ties", [False, True])
def test_the_lambda_loss_is_the_sum_over_pairs(ties: bool):
    labels, scores = groups(50, ties=ties)
    expected = [of_pairs(own, given) for own, given in each(labels, scores)]
    np.testing.assert_allclose(
        lambda_loss(tf.constant(labels), tf.constant(scores)), expected, rtol=1e-4, atol=1e-6
    )


@pytest.mark.parametrize("loss", [softmax_loss, lambda_loss])
def test_what_fills_up_a_group_has_no_gradient_and_changes_no_loss(loss):
    labels, scores = (tf.constant(each) for each in groups(50))
    with tf.GradientTape() as tape:
        tape.watch(scores)
        found = loss(labels, scores)
    gradient = tape.gradient(found, scores).numpy()
    assert np.isfinite(gradient).all()
    assert not gradient[labels < 0].any()
    assert gradient[labels > 0].any()
    np.testing.assert_array_equal(found, loss(labels, tf.where(labels < 0, 1e6, scores)))
    np.testing.assert_allclose(gradient.sum(axis=1), 0, atol=1e-5)  # only differences of scores count


def test_groups_without_a_relevant_row_do_not_count_in_the_mean():
    labels, scores = groups(50)
    relevant = (labels > 0).any(axis=1)
    means = [
        float(Objective(task=TASK).mean_loss(tf.constant(labels[rows]), tf.constant(scores[rows])))
        for rows in (slice(None), relevant)
    ]
    assert 0 < relevant.sum() < 50
    assert means[0] == pytest.approx(means[1], rel=1e-6)
    assert means[0] == pytest.approx(result(labels, scores)["loss"], rel=1e-5), (
        "an evaluation has the same loss"
    )


@keras.saving.register_keras_serializable("ranking_test")
class Members(keras.layers.Layer):
    """Two members' logits in training, their mean otherwise."""

    def call(self, logits, training: bool = False):
        both = keras.ops.stack([logits, logits + 1], axis=1)
        return both if training else keras.ops.mean(both, axis=1)


def scorer(*, has_members: bool) -> keras.Model:
    inputs = {
        "numeric": keras.Input((3,), name="numeric"),
        "categories": keras.Input((2,), name="categories", dtype="int32"),
    }
    both = keras.layers.Concatenate()([inputs["numeric"], keras.ops.cast(inputs["categories"], "float32")])
    logits = keras.layers.Dense(1)(both)
    return keras.Model(inputs, Members()(logits) if has_members else logits)


@pytest.mark.parametrize("has_members", [False, True])
def test_a_model_of_rows_scores_groups(has_members: bool):
    model, draw = scorer(has_members=has_members), np.random.default_rng(0)
    inputs = {
        "numeric": tf.constant(draw.normal(size=(5, 4, 3)), tf.float32),
        "categories": tf.constant(draw.integers(0, 9, (5, 4, 2)), tf.int32),
    }
    of_groups = OfGroups(model)
    rows = [{name: values[:, at] for name, values in inputs.items()} for at in range(4)]
    expected = np.stack([of_groups(each)[:, 0] for each in rows], axis=1)
    np.testing.assert_allclose(of_groups(inputs), expected, rtol=1e-5)
    in_training = of_groups(inputs, training=True)
    if not has_members:
        np.testing.assert_allclose(in_training, expected, rtol=1e-5)
        return
    assert in_training.shape == (5, 2, 4)
    np.testing.assert_allclose(in_training, np.stack([expected - 0.5, expected + 0.5], axis=1), rtol=1e-4)
    labels = tf.constant(draw.integers(0, 3, (5, 4)), tf.int32)
    objective = Objective(task=TASK)
    np.testing.assert_allclose(
        objective.losses(labels, in_training), objective.losses(labels, of_groups(inputs)), rtol=1e-4
    )
