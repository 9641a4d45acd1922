"""The tasks' losses, predictions and metrics."""

import json
import math

import numpy as np
import pytest
import tensorflow as tf
from sklearn import metrics as sklearn_metrics

from pipeline.data.schema.feature_types import Label, LabelGroup
from pipeline.training.tasks import classification
from pipeline.training.tasks.classification import Binary, Multiclass, Regression
from pipeline.training.tasks.registry import EvaluationMetrics

# Losses, hits and predictions of classification, on logits small enough to check by hand.


@pytest.mark.parametrize(
    ("task", "labels", "logits", "losses", "hits"),
    [
        (Binary(), [1, 0], [[0.0], [0.0]], [math.log(2)] * 2, [0, 1]),
        (Binary(), [1, 0], [[3.0], [3.0]], [0.04859, 3.04859], [1, 0]),
        (Multiclass(), [0, 1], [[0.0, 0.0], [0.0, 5.0]], [math.log(2), 0.00672], [1, 1]),
    ],
)
def test_losses_and_hits(task, labels, logits, losses, hits):
    labels, logits = tf.constant(labels), tf.constant(logits)
    np.testing.assert_allclose(task.losses(labels, logits), losses, atol=1e-5)
    np.testing.assert_array_equal(task.hits(labels, logits), hits)


def test_a_small_probability_keeps_its_digits():
    probabilities = Binary().predictions(tf.constant([[2.0], [-40.0]])).numpy()
    assert probabilities.shape == (2, 2)
    assert probabilities[0, 1] == pytest.approx(0.8808, abs=1e-4)
    assert 0 < probabilities[1, 1] < 1e-17


def test_probabilities_of_equal_logits_are_equal():
    np.testing.assert_allclose(Multiclass().predictions(tf.zeros([1, 3])), [[1 / 3] * 3], rtol=1e-6)


# The loss of a regression is the squared error, and its logit is its value.

LABELS, LOGITS = tf.constant([1.5, -1.0]), tf.constant([[1.0], [1.0]])


def test_losses_are_squared_errors():
    np.testing.assert_allclose(Regression().losses(LABELS, LOGITS), [0.25, 4.0], atol=1e-5)


def test_no_value_is_right_or_wrong():
    assert not Regression().has_accuracy
    np.testing.assert_array_equal(Regression().hits(LABELS, LOGITS), [0, 0])


def test_values_are_the_logits():
    np.testing.assert_array_equal(Regression().predictions(LOGITS), [1.0, 1.0])


# Metrics against scikit-learn's, and against numbers small enough to check by hand.

BINARY = Label(name="y", classes=("no", "yes"))
DRAW = np.random.default_rng(0)


def binary(positive: np.ndarray) -> np.ndarray:
    return np.stack([1 - positive, positive], axis=1)


def evaluate(label: Label, labels, predictions, mask=None) -> dict:
    metrics = EvaluationMetrics(label)
    metrics.update(np.asarray(labels), np.asarray(predictions), mask)
    result = metrics.result()
    assert json.loads(json.dumps(result)) == result
    return result


def test_binary_metrics_equal_scikit_learns():
    labels = DRAW.integers(0, 2, 500)
    scores = np.round(DRAW.uniform(0.05, 0.95, 500), 1)  # many ties
    result = evaluate(BINARY, labels, binary(scores))
    assert result["auc"] == pytest.approx(sklearn_metrics.roc_auc_score(labels, scores))
    assert result["loss"] == pytest.approx(sklearn_metrics.log_loss(labels, scores))
    assert result["confusion_matrix"] == sklearn_metrics.confusion_matrix(labels, scores > 0.5).tolist()
    assert result["accuracy"] == pytest.approx(sklearn_metrics.accuracy_score(labels, scores > 0.5))


def test_roc_has_both_ends_and_few_points():
    labels = DRAW.integers(0, 2, 5_000)
    roc = evaluate(BINARY, labels, binary(DRAW.uniform(size=5_000)))["roc"]
    assert len(roc["true_positive_rate"]) == 200
    for rate in roc.values():
        assert (rate[0], rate[-1]) == (0.0, 1.0)
        assert rate == sorted(rate)


def test_one_class_alone_has_no_auc():
    assert "auc" not in evaluate(BINARY, [1, 1], binary(np.array([0.2, 0.9])))


def test_multiclass_counts_actual_by_predicted():
    label = Label(name="y", task="multiclass", classes=("a", "b", "c"))
    predictions = [[0.6, 0.3, 0.1], [0.6, 0.3, 0.1], [0.1, 0.2, 0.7]]
    result = evaluate(label, [0, 1, 2], predictions)
    assert result["confusion_matrix"] == [[1, 0, 0], [1, 0, 0], [0, 0, 1]]
    assert result["accuracy"] == pytest.approx(2 / 3)
    assert result["loss"] == pytest.approx(-np.mean(np.log([0.6, 0.3, 0.7])))
    assert "top_5_accuracy" not in result


def test_top_5_of_ten_classes():
    label = Label(name="y", task="multiclass", classes=tuple("abcdefghij"))
    predictions = np.tile(np.linspace(1, 0.1, 10) / 5.5, (2, 1))  # a first, j last
    assert evaluate(label, [4, 5], predictions)["top_5_accuracy"] == 0.5


def test_regression_equals_scikit_learns():
    label = Label(name="y", task="regression")
    actual, predicted = DRAW.normal(size=3_000), DRAW.normal(size=3_000)
    result = evaluate(label, actual, predicted)
    assert result["r2"] == pytest.approx(sklearn_metrics.r2_score(actual, predicted))
    assert result["mae"] == pytest.approx(sklearn_metrics.mean_absolute_error(actual, predicted))
    assert result["rmse"] ** 2 == pytest.approx(result["loss"])
    assert len(result["predicted_vs_actual"]) == 1_000


def test_padding_does_not_count():
    masked = evaluate(BINARY, [0, 1, 1], binary(np.array([0.1, 0.8, 0.0])), np.array([1.0, 1.0, 0.0]))
    assert masked == evaluate(BINARY, [0, 1], binary(np.array([0.1, 0.8])))
    assert masked["examples"] == 2


def test_batches_add_up():
    labels, scores = DRAW.integers(0, 2, 100), DRAW.uniform(size=100)
    parts = EvaluationMetrics(BINARY)
    for part in np.array_split(np.arange(100), 7):
        parts.update(labels[part], binary(scores[part]))
    whole = evaluate(BINARY, labels, binary(scores))
    assert parts.result()["loss"] == pytest.approx(whole["loss"])
    assert parts.result()["auc"] == whole["auc"]


def test_wrong_certainty_costs_a_finite_loss():
    assert evaluate(BINARY, [0, 1], binary(np.array([1.0, 0.0])))["loss"] == pytest.approx(16.118, abs=1e-3)


def test_no_examples_give_no_numbers():
    assert EvaluationMetrics(BINARY).result() == {"task": "binary", "examples": 0, "classes": ["no", "yes"]}


def test_a_target_of_one_value_adds_nothing_to_the_loss():
    label = LabelGroup(name="price, rare", task="multitarget", parts=("price", "rare"))
    labels = np.stack([np.arange(8.0), np.full(8, 1000.0)], axis=1)
    metrics = EvaluationMetrics(label)
    metrics.update(labels, labels + np.array([1.0, 30.0]))
    found = metrics.result()
    price = sklearn_metrics.r2_score(labels[:, 0], labels[:, 0] + 1)
    assert (found["loss"], found["r2"]) == pytest.approx(((1 - price) / 2, price / 2))
    assert found["rmse_rare"] == 30


def test_equal_labels_have_no_variance_though_their_weighted_mean_is_rounded():
    weights = np.random.default_rng(0).random(777)
    errors = classification.SquaredErrors()
    errors.update(np.full(777, 19.99), np.full((777, 1), 20.99), weights)
    assert errors.relative_loss() == errors.result()["r2"] == 0
