"""Answers without features, held against scikit-learn's."""

import math

import numpy as np
import pytest
from sklearn.dummy import DummyClassifier, DummyRegressor
from sklearn.metrics import log_loss, mean_squared_error, r2_score

from pipeline.training.report.findings import verdict
from pipeline.training.report.results import baseline, majority, mean_rmse, prior_loss

DRAW = np.random.default_rng(0)


def counts_of(labels: np.ndarray, predicted: np.ndarray, classes: int) -> np.ndarray:
    counts = np.zeros((classes, classes), np.int64)
    np.add.at(counts, (labels, predicted), 1)
    return counts


@pytest.mark.parametrize("shares", [(0.5, 0.5), (0.9, 0.1), (0.2, 0.3, 0.5), (0.7, 0.3, 0.0)])
def test_prior_loss_and_majority_are_those_of_a_dummy(shares: tuple[float, ...]):
    labels = DRAW.choice(len(shares), 2_000, p=shares)
    counts = counts_of(labels, DRAW.integers(0, len(shares), 2_000), len(shares))
    features = np.zeros((2_000, 1))
    prior = DummyClassifier(strategy="prior").fit(features, labels)
    expected = log_loss(labels, prior.predict_proba(features), labels=prior.classes_)
    assert prior_loss(counts) == pytest.approx(expected, rel=1e-12)
    assert majority(counts)[1] == pytest.approx(prior.score(features, labels))


def test_the_spread_is_what_a_dummy_regression_has():
    labels = DRAW.normal(1e3, 7, 500)
    predicted = labels + DRAW.normal(0, 3, 500)
    evaluation = {
        "rmse": math.sqrt(mean_squared_error(labels, predicted)),
        "r2": r2_score(labels, predicted),
    }
    mean = DummyRegressor().fit(np.zeros((500, 1)), labels).predict(np.zeros((500, 1)))
    assert mean_rmse(evaluation) == pytest.approx(math.sqrt(mean_squared_error(labels, mean)), rel=1e-9)


def test_nothing_is_said_of_what_is_not_known():
    none = np.empty((0, 0), np.int64)
    assert baseline({}, none, []) is None
    assert baseline({"rmse": 0.0, "r2": 0.0}, none, []) is None
    assert "The loss" not in str(baseline({}, np.eye(2, dtype=np.int64), ["no", "yes"]))


@pytest.mark.parametrize(("loss", "said"), [(0.6, 0), (0.7, 1)])
def test_a_loss_above_the_prior_is_told(loss: float, said: int):
    evaluation = {"classes": ["no", "yes"], "confusion_matrix": [[9, 1], [1, 9]], "loss": loss}
    assert len([each for each in verdict(evaluation) if "is not below 0.693" in each.text]) == said
