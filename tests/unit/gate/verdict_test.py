"""The gate on made-up holdouts, where the truth is known, and on those that tell too little."""

import dataclasses
import json

import numpy as np
import pytest
import sklearn.metrics

from pipeline.base.errors import InputError
from pipeline.gate.metrics import METRICS
from pipeline.gate.rules import GateRules
from pipeline.gate.scores import Scored
from pipeline.gate.verdict import PROMOTE, REJECT, UNDECIDED, Verdict, evaluate
from tests.unit.gate.holdouts import binary, regression, sigmoid

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


@pytest.mark.parametrize("task", ["multilabel", "multitarget"])
def test_several_answers_an_example_are_decided_by_their_mean_loss(task):
    """Of targets each in its own unit: the second one's alone would hide the first."""
    rng = np.random.default_rng(3)
    values = rng.normal(0, (1, 1e4), (3_000, 2))
    labels = (values > 0).astype(np.int64) if task == "multilabel" else values

    def made(noise: tuple[float, float]) -> np.ndarray:
        found = values + rng.normal(0, 1, values.shape) * np.array(noise) * (1, 1e4)
        return sigmoid(found / (1, 1e4)) if task == "multilabel" else found

    better, worse = made((0.1, 0.5)), made((0.6, 0.5))
    for challenger, champion, decision in ((better, worse, PROMOTE), (worse, better, REJECT)):
        predictions = {"challenger": challenger, "champion": champion}
        assert evaluate(Scored(task=task, labels=labels, predictions=predictions), RULES).decision == decision
    known = {"prior": labels.mean(axis=0), "class_names": ("a", "b") if task == "multilabel" else ()}
    first = evaluate(Scored(task=task, labels=labels, predictions={"challenger": better}, **known), RULES)
    assert (first.decision, first.is_first) == (PROMOTE, True)


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
    what = "clusters of class '1': 5; 10 are needed"
    assert found.reasons == (f"the holdout is too small: {what}",)
    assert found.examples == 4 * ROWS  # twice what is needed: by chance there may be fewer


def test_an_area_needs_more_than_one_heavy_row_of_either_class():
    labels = (np.arange(ROWS) % 10 == 0).astype(np.int64)
    weights = np.where(np.arange(ROWS) == 10, 50.0, 1.0)
    found = verdict(labels, rules=GateRules(metric="auc", least_rows=50), weights=weights)
    assert found.decision == UNDECIDED
    assert "rows of class '1', counted at equal weight: 3; 10 are needed" in found.reasons[0]


@pytest.mark.parametrize("weights", [None, RNG.random(ROWS)])
@pytest.mark.parametrize("metric", [metric.name for metric in METRICS["binary"]])
def test_one_class_alone_decides_nothing(metric, weights):
    found = verdict(np.zeros(ROWS, np.int64), weights=weights, rules=GateRules(metric=metric))
    assert found.decision == UNDECIDED
    how = "" if weights is None else ", counted at equal weight"
    assert found.reasons == (f"the holdout is too small: rows of class '1'{how}: 0; 10 are needed",)
    area = found.to_json()["metrics"][1]
    assert area["values"]["challenger"]["value"] is None
    assert area["differences"]["champion"]["p"] is None


@pytest.mark.parametrize(("positive", "decision"), [(9, UNDECIDED), (10, PROMOTE)])
def test_ten_rows_of_each_class_are_needed(positive, decision):
    labels = (np.arange(ROWS) < positive).astype(np.int64)
    good, poor = (np.abs(labels - off + RNG.normal(0, 0.01, ROWS)) for off in (0.1, 0.4))
    found = verdict(labels, good, poor, prior=0.22, class_names=("no", "yes"))
    assert found.decision == decision
    if decision == UNDECIDED:
        assert found.reasons == ("the holdout is too small: rows of class 'yes': 9; 10 are needed",)
        assert found.examples == np.ceil(2 * 10 * ROWS / 9)


def test_a_first_model_is_not_promoted_on_one_class():
    zeros = Scored(
        task="binary", labels=np.zeros(500), predictions={"challenger": RNG.uniform(0, 0.1, 500)}, prior=0.22
    )
    found = evaluate(zeros, GateRules(floors={"auc": 0.7}))
    assert found.decision == UNDECIDED
    assert found.examples == np.ceil(2 * 10 / 0.22)


def test_of_many_classes_those_that_training_often_has_must_occur():
    labels = np.arange(ROWS) % 3
    rates = np.array([0.4, 0.3, 0.29, 0.01])
    good, poor = (np.eye(4)[labels] * (1 - noise) + noise / 4 for noise in RNG.uniform(0, 0.5, (2, ROWS, 1)))
    made = {"challenger": good, "champion": poor}
    known = evaluate(Scored(task="multiclass", labels=labels, predictions=made, prior=rates), RULES)
    assert "rows of class" not in known.reasons[0]  # of the fourth, 4 are expected
    unknown = evaluate(Scored(task="multiclass", labels=labels, predictions=made), RULES)
    assert unknown.reasons == ("the holdout is too small: rows of class '3': 0; 10 are needed",)
    two = evaluate(Scored(task="multiclass", labels=labels % 2, predictions=made, prior=rates), RULES)
    assert two.reasons == ("the holdout is too small: rows of class '2': 0; 10 are needed",)


def test_a_label_that_never_changes_decides_nothing():
    made = {model: RNG.normal(1, 0.1, ROWS) for model in ("challenger", "champion")}
    found = evaluate(Scored(task="regression", labels=np.zeros(ROWS), predictions=made), RULES)
    assert found.decision == UNDECIDED
    assert "rows that differ from the most frequent label: 0; 10 are needed" in found.reasons[0]


# Copies of rows tell no more than one.


def copied(scored: Scored, times: int) -> Scored:
    return scored.take(np.tile(np.arange(scored.rows), times))


def test_ten_rows_copied_a_hundred_times_are_ten_rows():
    found = evaluate(copied(binary(10, challenger=0.3, champion=0.3), 100), GateRules())
    assert found.decision == UNDECIDED
    assert found.reasons == ("the holdout is too small: rows that are no copies: 10; 100 are needed",)
    assert (found.rows, found.distinct, found.clusters) == (1_000, 10, None)


@pytest.mark.parametrize("metric", [metric.name for metric in METRICS["binary"]])
def test_a_holdout_that_is_there_five_times_is_as_certain_as_one(metric):
    once, rules = binary(400, challenger=0.3, champion=0.5), GateRules(metric=metric)
    found, expected = evaluate(copied(once, 5), rules), evaluate(once, rules)
    assert found.decision == expected.decision
    assert found.distinct == 400
    for mine, its in zip(found.metrics, expected.metrics, strict=True):
        difference, single = mine.differences["champion"], its.differences["champion"]
        assert difference.value == pytest.approx(single.value)
        assert difference.high - difference.low == pytest.approx(single.high - single.low, rel=0.05)


def test_copies_are_found_though_their_predictions_differ_in_the_last_bit():
    once = binary(400, challenger=0.3, champion=0.5)
    rounded = {model: made.astype(np.float32) for model, made in copied(once, 5).predictions.items()}
    rounded["champion"][::7] = np.nextafter(rounded["champion"][::7], np.float32(0))
    labels = np.tile(once.labels, 5)
    found = evaluate(Scored(task="binary", labels=labels, predictions=rounded), RULES)
    assert 400 <= found.distinct <= 420


def test_rows_of_few_columns_repeat_by_nature():
    """Four cells of features: each has both labels, so its rows are no copies. Two ingestions of them are."""
    cells = RNG.integers(4, size=999)
    labels = (RNG.random(999) < (1 + cells) / 6).astype(np.int64)
    made = {"challenger": (1 + cells) / 6, "champion": np.full(999, 0.4)}
    honest = Scored(task="binary", labels=labels, predictions=made)
    assert evaluate(honest, RULES).distinct is None
    assert evaluate(honest, RULES).decision == PROMOTE
    assert evaluate(copied(honest, 2), RULES).distinct == 999


def test_models_that_are_certain_say_the_same_of_many_rows():
    labels = RNG.integers(2, size=ROWS)
    made = {"challenger": labels.astype(np.float32), "champion": 1.0 - labels}
    assert evaluate(Scored(task="binary", labels=labels, predictions=made), RULES).distinct is None


def test_rows_of_one_content_are_copies_whatever_is_predicted():
    labels = RNG.integers(2, size=ROWS)
    made = {"challenger": 0.2 + 0.6 * labels, "champion": np.full(ROWS, 0.5) + 0.1 * labels}
    few = Scored(task="binary", labels=labels, predictions=made)
    assert evaluate(few, RULES).distinct == 2  # all that is known
    own = dataclasses.replace(few, content=np.arange(ROWS, dtype=np.uint64))
    assert evaluate(own, RULES).distinct is None
    halves = dataclasses.replace(few, content=np.arange(ROWS, dtype=np.uint64) // 2 * 2 + labels)
    assert evaluate(halves, RULES).distinct < ROWS


def test_rows_that_differ_in_a_weight_or_a_slice_are_no_copies():
    once = binary(300, challenger=0.3, champion=0.5)
    twice = copied(once, 2)
    weights = np.repeat([1.0, 2.0], 300)
    assert evaluate(dataclasses.replace(twice, weights=weights), RULES).distinct is None
    days = {"day": np.repeat(["Mo", "Di"], 300)}
    assert evaluate(dataclasses.replace(twice, slices=days), RULES).distinct is None
    users = np.arange(600) % 300
    assert evaluate(dataclasses.replace(twice, clusters=users), RULES).clusters == 300


# A champion that gives no number for some rows keeps its place by what it does on the others.


def without_numbers(scored: Scored, rows: slice, *, of: str = "champion") -> Scored:
    made = np.array(scored.predictions[of])
    made[rows] = np.nan
    return dataclasses.replace(scored, predictions={**scored.predictions, of: made})


@pytest.mark.parametrize("of", ["champion", "anchor"])
def test_rows_without_a_number_of_the_champion_are_left_out(of):
    whole = binary(4_000, challenger=0.2, champion=0.6, anchor=0.6)
    found = evaluate(without_numbers(whole, slice(3), of=of), RULES)
    assert found.decision == PROMOTE
    assert found.reasons[-1] == f"the {of} gives no valid number for 3 of 4,000 rows: these rows are left out"
    rest = evaluate(whole.take(np.arange(4_000) >= 3), RULES)
    assert found.metrics == rest.metrics
    worse = evaluate(without_numbers(binary(4_000, challenger=0.6, champion=0.2), slice(3)), RULES)
    assert worse.decision == REJECT


@pytest.mark.parametrize("rows", [slice(None), slice(3_950)])
def test_a_champion_without_numbers_is_no_champion(rows):
    found = evaluate(without_numbers(binary(4_000, challenger=0.2, champion=0.6), rows), RULES)
    assert found.decision == PROMOTE
    assert found.is_first
    assert "the prior's" in found.reasons[0]
    assert found.reasons[-1].endswith("of 4,000 rows: nothing is compared with it")
    values = without_numbers(regression(1_000, challenger=0.5, champion=0.1), slice(None))
    assert evaluate(values, RULES).is_first


def test_a_row_that_no_model_answers_counts_for_none():
    whole = binary(4_000, challenger=0.2, champion=0.6)
    made = {model: np.where(np.arange(4_000) == 7, np.nan, each) for model, each in whole.predictions.items()}
    assert evaluate(dataclasses.replace(whole, predictions=made), RULES).decision == PROMOTE


def test_models_that_always_say_the_same_can_be_told_apart():
    found = verdict(challenger=np.full(ROWS, 0.5), champion=np.full(ROWS, 0.9))
    assert found.decision == PROMOTE
    assert verdict(challenger=np.full(ROWS, 0.5), champion=np.full(ROWS, 0.5)).decision == UNDECIDED


@pytest.mark.parametrize(("challenger", "decision"), [(0.8, PROMOTE), (0.4, REJECT)])
def test_a_constant_difference_is_certain(challenger, decision):
    """Squared errors that differ by the same amount on every row."""
    labels = np.arange(ROWS) / ROWS
    made = {"challenger": labels + challenger - 1, "champion": labels - 0.4}
    found = evaluate(Scored(task="regression", labels=labels, predictions=made), RULES)
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
