"""The gate on made-up holdouts, where the truth is known."""

import json

import numpy as np
import pytest
import sklearn.metrics

from pipeline.base.errors import InputError
from pipeline.gate.rules import GateRules
from pipeline.gate.scores import Scored
from pipeline.gate.verdict import PROMOTE, REJECT, UNDECIDED, evaluate
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
