"""The gate on made-up holdouts, where the truth is known, and on those that tell too little."""

import json

import numpy as np
import pytest
import sklearn.metrics

from pipeline.base.errors import InputError
from pipeline.gate.metrics import METRICS
from pipeline.gate.rules import GateRules
from pipeline.gate.scores import Scored
from pipeline.gate.verdict import PROMOTE, REJECT, UNDECIDED, Verdict, evaluate
from tests.unit.gate.holdouts import binary, regression

RULES = GateRules()
METHODS = {
    ("plain", "loss"): "Student's t",
    ("weighted", "loss"): "Student's t, robust",
    ("clustered", "loss"): "Student's t, cluster-robust",
    ("plain", "accuracy"): "McNemar",
    ("weighted", "accuracy"): "Student's t, robust",
    ("clustered", "accuracy"): "Student's t, cluster-robust",
    ("plain", "auc"): "DeLong",
    ("weighted", "auc"): "paired row bootstrap",
    ("clustered", "auc"): "paired cluster bootstrap",
}
NON_INFERIOR = GateRules(rule="non_inferiority", margin=0.01)


def test_a_better_challenger_is_promoted_with_its_numbers():
    verdict = evaluate(binary(4_000, challenger=0.2, champion=0.6), RULES)
    assert verdict.decision == PROMOTE
    (result, *_), (reason, *_) = verdict.metrics, verdict.reasons
    found = result.differences["champion"]
    assert result.name == verdict.metric == "log_loss"
    assert found.low > 0
    assert found.value == pytest.approx(result.values["champion"].value - result.values["challenger"].value)
    assert f"better by {found.value:.3g} (95% interval {found.low:+.3g} to" in reason
    assert reason.endswith("that is better by more than chance")


def test_a_worse_challenger_is_rejected():
    verdict = evaluate(binary(4_000, challenger=0.6, champion=0.2), RULES)
    assert verdict.decision == REJECT
    assert "worse by more than chance" in verdict.reasons[0]
    assert verdict.examples is None


def test_an_open_question_says_how_many_examples_would_close_it():
    verdict = evaluate(binary(1_000, seed=2, challenger=0.4, champion=0.45), RULES)
    assert verdict.decision == UNDECIDED
    assert verdict.examples > 1_000
    assert f"about {verdict.examples:,} examples would decide with a chance of 90%" in verdict.reasons[0]
    enough = evaluate(binary(200_000, seed=3, challenger=0.4, champion=0.45), RULES)
    assert enough.decision == PROMOTE


@pytest.mark.parametrize("seed", range(6))
def test_what_chance_can_do_is_open(seed):
    verdict = evaluate(binary(1_000, seed=seed, challenger=0.4, champion=0.4), RULES)
    found = verdict.metrics[0].differences["champion"]
    assert found.low < 0 < found.high
    assert verdict.decision == UNDECIDED


def test_the_same_predictions_are_never_superior():
    scored = binary(1_000, challenger=0.4)
    both = Scored(
        task="binary",
        labels=scored.labels,
        predictions=dict.fromkeys(("challenger", "champion"), scored.predictions["challenger"]),
    )
    verdict = evaluate(both, RULES)
    assert verdict.decision == UNDECIDED
    assert "no difference (95% interval +0 to +0, p 1); undecided, and no number" in verdict.reasons[0]
    assert evaluate(both, NON_INFERIOR).decision == PROMOTE


def test_a_little_worse_is_within_the_margin_and_much_worse_is_not():
    little = evaluate(binary(20_000, challenger=0.42, champion=0.4), NON_INFERIOR)
    assert little.decision == PROMOTE
    assert little.reasons[0].endswith("that is not worse by the margin of 0.01")
    much = evaluate(binary(20_000, challenger=0.7, champion=0.4), NON_INFERIOR)
    assert much.decision == REJECT
    assert much.reasons[0].endswith("that is worse by more than the margin of 0.01")
    assert evaluate(binary(400, challenger=0.45, champion=0.4), NON_INFERIOR).decision == UNDECIDED


@pytest.mark.parametrize("metric", ["log_loss", "auc", "accuracy", "brier"])
@pytest.mark.parametrize("kept", ["plain", "weighted", "clustered"])
def test_every_metric_can_decide(metric, kept):
    rng = np.random.default_rng(0)
    extra = {
        "weighted": {"weights": rng.gamma(2, 1, 4_000)},
        "clustered": {"clusters": np.arange(4_000) // 4},
    }
    rules = GateRules(metric=metric, resamples=200)
    better = evaluate(binary(4_000, extra=extra.get(kept), challenger=0.1, champion=1.5), rules)
    worse = evaluate(binary(4_000, extra=extra.get(kept), challenger=1.5, champion=0.1), rules)
    assert (better.decision, worse.decision) == (PROMOTE, REJECT)
    assert better.clusters == (1_000 if kept == "clustered" else None)
    assert better.is_weighted == (kept == "weighted")
    methods = {found.name: found.differences["champion"].method for found in better.metrics}
    assert methods[metric].startswith(
        METHODS[kept, {"auc": "auc", "accuracy": "accuracy"}.get(metric, "loss")]
    )


def test_values_are_judged_by_their_squared_errors():
    verdict = evaluate(regression(1_000, challenger=0.5, champion=1.5), RULES)
    assert verdict.decision == PROMOTE
    assert [result.name for result in verdict.metrics] == ["mean_squared_error", "mean_absolute_error"]


def test_a_challenger_below_the_anchor_is_rejected_though_it_beats_the_champion():
    verdict = evaluate(binary(20_000, challenger=0.6, champion=0.9, anchor=0.2), RULES)
    assert verdict.decision == REJECT
    assert "the anchor's" in verdict.reasons[0]
    assert verdict.metrics[0].differences["anchor"].high < 0
    lenient = GateRules(anchor_margin=0.2)
    assert evaluate(binary(20_000, challenger=0.6, champion=0.9, anchor=0.2), lenient).decision == PROMOTE


def test_a_first_model_must_reach_the_floors():
    scored = binary(2_000, challenger=0.4)
    reached = evaluate(scored, GateRules(floors={"auc": 0.7, "log_loss": 0.65}))
    missed = evaluate(scored, GateRules(floors={"auc": 0.95, "log_loss": 0.65}))
    assert reached.decision == PROMOTE
    assert reached.is_first
    assert missed.decision == REJECT
    assert missed.reasons == (
        f"auc is {missed.metrics[1].values['challenger'].value:.5g}; the floor is 0.95 or more",
    )


@pytest.mark.parametrize(
    ("task", "prior"), [("binary", 0.5), ("binary", None), ("binary", np.array([0.5, 0.5]))]
)
def test_a_first_model_that_knows_nothing_is_not_promoted(task, prior):
    rng = np.random.default_rng(0)
    scored = Scored(
        task=task,
        labels=rng.integers(2, size=1_000),
        predictions={"challenger": rng.uniform(0.45, 0.55, 1_000)},
        prior=prior,
    )
    assert evaluate(scored, RULES).decision != PROMOTE
    assert "the prior's" in evaluate(scored, RULES).reasons[0]


@pytest.mark.parametrize("prior", [0.9, np.array([0.1, 0.9])])
def test_a_rate_is_that_of_the_positive_class(prior):
    scored = binary(1_000, challenger=0.5, extra={"prior": prior})
    expected = sklearn.metrics.log_loss(scored.labels, np.full(1_000, 0.9))
    assert evaluate(scored, RULES).metrics[0].values["prior"].value == pytest.approx(expected)


def test_a_floor_of_what_cannot_be_measured_is_open():
    ones = Scored(
        task="binary", labels=np.ones(500), predictions={"challenger": np.full(500, 0.9)}, prior=0.5
    )
    verdict = evaluate(ones, GateRules(floors={"auc": 0.7}))
    assert verdict.decision == UNDECIDED
    assert verdict.reasons == ("auc is not known on this holdout; the floor is 0.7 or more",)


def test_the_prior_is_what_training_says():
    verdict = evaluate(regression(1_000, challenger=0.5, extra={"prior": 0.0}), RULES)
    told = evaluate(regression(1_000, challenger=0.5), RULES)
    squares = regression(1_000, challenger=0.5).labels ** 2
    assert verdict.metrics[0].values["prior"].value == pytest.approx(squares.mean())
    assert told.metrics[0].values["prior"].value == pytest.approx(
        regression(1_000, challenger=0.5).labels.var()
    )


def test_rows_of_no_weight_are_not_there():
    scored = binary(1_000, challenger=0.2, champion=0.6)
    cut = Scored(
        task="binary",
        labels=scored.labels[:600],
        predictions={model: made[:600] for model, made in scored.predictions.items()},
    )
    weights = np.where(np.arange(1_000) < 600, 3.0, 0.0)
    weighted = Scored(task="binary", labels=scored.labels, predictions=scored.predictions, weights=weights)
    assert evaluate(weighted, RULES).to_json() == evaluate(cut, RULES).to_json()


def test_reuse_is_counted_and_told():
    scored = binary(500, challenger=0.2, champion=0.6)
    fresh, used = evaluate(scored, RULES).reuse, evaluate(scored, RULES, reuse=9).reuse
    assert fresh.luck == pytest.approx(0.025)
    assert used.luck == pytest.approx(1 - 0.975**10)
    assert used.meaning.startswith(
        "rows of this holdout evaluated 9 challengers before: the chance that one of 10 "
    )
    with pytest.raises(InputError, match="reuse of the holdout: received -1"):
        evaluate(scored, RULES, reuse=-1)


def test_json_holds_what_a_report_needs():
    scored = binary(
        600, challenger=0.3, champion=0.5, anchor=0.5, extra={"slices": {"city": np.full(600, "a")}}
    )
    told = json.loads(json.dumps(evaluate(scored, GateRules(slices=("city",))).to_json(), allow_nan=False))
    assert told["decision"] in (PROMOTE, REJECT, UNDECIDED)
    assert set(told["metrics"][0]["values"]) == {"challenger", "champion", "anchor"}
    assert set(told["metrics"][0]["differences"]["anchor"]) == {"value", "low", "high", "p", "method"}
    assert told["slices"]["results"][0]["value"] == "a"
    assert told["rules"]["confidence"] == 0.95


@pytest.mark.parametrize(
    ("rules", "message"),
    [
        (GateRules(metric="mean_squared_error"), "metric of the gate for task 'binary'"),
        (GateRules(floors={"mean_squared_error": 1}), "metric of the gate for task 'binary'"),
        (
            GateRules(slices=("citty",)),
            "received 'citty'; expected a feature that was scored: city. Did you mean",
        ),
        (GateRules(clustered_by="user"), "received 'user', and no clusters"),
    ],
)
def test_rules_of_what_was_not_scored_are_named(rules, message):
    scored = binary(200, challenger=0.3, extra={"slices": {"city": np.full(200, "a")}})
    with pytest.raises(InputError, match=message):
        evaluate(scored, rules)


# Holdouts that tell too little, or too clearly: a verdict of each, and never a number that is none.
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
