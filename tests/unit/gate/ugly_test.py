"""Holdouts that tell too little, or too clearly: a verdict of each, and never a number that is none."""

import json

import numpy as np
import pytest

from pipeline.gate.metrics import METRICS
from pipeline.gate.rules import GateRules
from pipeline.gate.scores import Scored
from pipeline.gate.verdict import PROMOTE, REJECT, UNDECIDED, Verdict, evaluate

ROWS = 400
RNG = np.random.default_rng(0)
LABELS = RNG.integers(2, size=ROWS)
GOOD, POOR = (np.clip(0.5 + lift * (LABELS - 0.5) + RNG.normal(0, 0.1, ROWS), 0, 1) for lift in (0.5, 0.2))


def verdict(labels=LABELS, challenger=GOOD, champion=POOR, *, rules=None, **extra) -> Verdict:
    predictions = {"challenger": challenger, "champion": champion}
    found = evaluate(
        Scored(task="binary", labels=labels, predictions=predictions, **extra), rules or GateRules()
    )
    json.dumps(found.to_json(), allow_nan=False)
    return found


def test_one_row_decides_nothing():
    found = verdict(LABELS[:1], GOOD[:1], POOR[:1])
    assert found.decision == UNDECIDED
    assert found.reasons == ("the holdout is too small: rows: 1; 100 are needed",)
    assert found.examples == 100


def test_one_cluster_decides_nothing():
    found = verdict(clusters=np.zeros(ROWS, np.int64))
    assert found.decision == UNDECIDED
    assert found.reasons == ("the holdout is too small: clusters: 1; 10 are needed",)


def test_one_heavy_row_decides_nothing():
    found = verdict(weights=np.where(np.arange(ROWS) == 7, 1e6, 1e-3))
    assert found.decision == UNDECIDED
    assert "rows, counted at equal weight: 1; 100 are needed" in found.reasons[0]


@pytest.mark.parametrize(("largest", "count"), [(0.8, 2), (0.5, 4)])
def test_one_cluster_of_most_rows_decides_nothing(largest, count):
    """The others do not tell how far chance moves the largest: 23 of 100 equal models were promoted."""
    others = 1 + np.arange(ROWS) % 19
    found = verdict(clusters=np.where(np.arange(ROWS) < largest * ROWS, 0, others))
    assert found.clusters == 20
    assert found.decision == UNDECIDED
    what = f"clusters, counted at equal weight: {count}; 10 are needed"
    assert found.reasons == (f"the holdout is too small: {what}",)


def test_weights_make_one_cluster_most_of_all():
    numbers = np.arange(ROWS) // 20
    weights = np.where(numbers == 3, 50.0, 1.0)
    found = verdict(clusters=numbers, weights=weights, rules=GateRules(least_rows=30))
    assert found.decision == UNDECIDED
    assert "clusters, counted at equal weight: 2; 10 are needed" in found.reasons[0]


def test_an_area_needs_clusters_of_either_class():
    numbers = np.arange(ROWS) % 100
    labels = (numbers < 5).astype(np.int64)
    found = verdict(labels, rules=GateRules(metric="auc"), clusters=numbers)
    assert found.decision == UNDECIDED
    what = "clusters of one class: 5; 10 are needed"
    assert found.reasons == (f"the holdout is too small: {what}",)
    assert found.examples == 2 * ROWS


def test_an_area_needs_more_than_one_heavy_row_of_either_class():
    labels = (np.arange(ROWS) % 10 == 0).astype(np.int64)
    weights = np.where(np.arange(ROWS) == 10, 50.0, 1.0)
    found = verdict(labels, rules=GateRules(metric="auc", least_rows=50), weights=weights)
    assert found.decision == UNDECIDED
    assert "rows of one class, counted at equal weight: 3; 10 are needed" in found.reasons[0]


@pytest.mark.parametrize("weights", [None, RNG.random(ROWS)])
def test_one_class_alone_has_no_area_but_a_loss(weights):
    ones = np.ones(ROWS, np.int64)
    by_loss = verdict(ones, weights=weights)
    assert by_loss.decision in (PROMOTE, REJECT, UNDECIDED)
    area = by_loss.to_json()["metrics"][1]
    assert area["values"]["challenger"]["value"] is None
    assert area["differences"]["champion"]["p"] is None
    by_area = verdict(ones, weights=weights, rules=GateRules(metric="auc"))
    assert by_area.decision == UNDECIDED
    assert by_area.reasons == ("the holdout is too small: rows of the rarer class: 0; 10 are needed",)


def test_models_that_always_say_the_same_can_be_told_apart():
    found = verdict(challenger=np.full(ROWS, 0.5), champion=np.full(ROWS, 0.9))
    assert found.decision == PROMOTE
    assert verdict(challenger=np.full(ROWS, 0.5), champion=np.full(ROWS, 0.5)).decision == UNDECIDED


@pytest.mark.parametrize(("challenger", "decision"), [(0.8, PROMOTE), (0.4, REJECT)])
def test_a_constant_difference_is_certain(challenger, decision):
    found = verdict(np.ones(ROWS, np.int64), np.full(ROWS, challenger), np.full(ROWS, 0.6))
    assert found.decision == decision
    difference = found.metrics[0].differences["champion"]
    assert difference.low == pytest.approx(difference.high)


def test_certain_predictions_can_be_judged():
    found = verdict(challenger=LABELS.astype(float), champion=1 - LABELS.astype(float))
    assert found.decision == PROMOTE
    assert found.metrics[0].values["champion"].value == pytest.approx(-np.log(1e-7))
    assert found.metrics[1].values["challenger"].value == 1.0


@pytest.mark.parametrize("metric", [metric.name for metric in METRICS["binary"]])
@pytest.mark.parametrize("scale", [1e-300, 1e30])
def test_the_unit_of_weights_does_not_matter(metric, scale):
    weights, rules = RNG.random(ROWS) + 0.1, GateRules(metric=metric, resamples=100)
    plain, scaled = (verdict(weights=each, rules=rules) for each in (weights, weights * scale))
    differences = [found.metrics[0].differences["champion"] for found in (plain, scaled)]
    assert differences[0].low == pytest.approx(differences[1].low)
    assert plain.decision == scaled.decision


def test_equal_weights_are_no_weights():
    assert verdict(weights=np.full(ROWS, 7.0)).to_json() == verdict().to_json()


def test_predictions_of_bfloat16_and_of_integers_can_be_judged():
    rounded = (GOOD.astype(np.float32).view(np.uint32) & 0xFFFF0000).view(np.float32)
    assert verdict(challenger=rounded).decision == PROMOTE
    assert verdict(challenger=LABELS, champion=1 - LABELS).decision == PROMOTE


def test_the_smallest_of_each_task_has_a_verdict():
    for task, labels, made in (
        ("multiclass", np.array([2]), np.array([[0.2, 0.3, 0.5]])),
        ("regression", np.array([1.5]), np.array([1.0])),
        ("binary", np.array([True]), np.array([1.0])),
    ):
        found = evaluate(
            Scored(task=task, labels=labels, predictions={"challenger": made}), GateRules(least_rows=2)
        )
        json.dumps(found.to_json(), allow_nan=False)
        assert found.decision == UNDECIDED
