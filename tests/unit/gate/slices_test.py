"""Slices: a regression on one is found, chance on many is not, and what is too small is not judged."""

import numpy as np
import pytest
from statsmodels.stats.multitest import multipletests

from pipeline.gate.rules import GateRules
from pipeline.gate.slices import KEPT, NOT_EVALUATED, REGRESSED
from pipeline.gate.verdict import PROMOTE, REJECT, evaluate
from tests.unit.gate.holdouts import binary

ROWS = 10_000
CITIES = np.array(["Basel", "Bern", "Genf", "Ulm"])[np.arange(ROWS) % 4]
RULES = GateRules(slices=("city",))


def scored(cities=CITIES, *, challenger=0.2, champion=0.6, rows=ROWS, **more):
    return binary(rows, extra={"slices": {"city": cities, **more}}, challenger=challenger, champion=champion)


def test_better_overall_and_worse_on_one_slice_is_rejected():
    worse_in_bern = np.where(CITIES == "Bern", 1.2, 0.1)
    verdict = evaluate(scored(challenger=worse_in_bern, champion=0.7), RULES)
    assert verdict.metrics[0].differences["champion"].low > 0
    assert verdict.decision == REJECT
    assert [found.value for found in verdict.slices.results if found.verdict == REGRESSED] == ["Bern"]
    (reason,) = verdict.reasons
    assert reason.startswith("slice city = 'Bern' (2,500 rows): worse by ")
    assert "after Holm's correction for 4 slices" in reason


def test_a_slice_may_be_worse_by_its_margin():
    rules = GateRules(slices=("city",), slice_margin=0.5)
    worse_in_bern = np.where(CITIES == "Bern", 1.2, 0.1)
    assert evaluate(scored(challenger=worse_in_bern, champion=0.7), rules).decision == PROMOTE


def test_p_values_are_corrected_over_all_slices():
    verdict = evaluate(scored(challenger=0.5, champion=0.48), RULES)
    raw = [found.p for found in verdict.slices.results]
    corrected = [found.p_holm for found in verdict.slices.results]
    assert corrected == pytest.approx(multipletests(raw, method="holm")[1])
    assert max(corrected) > 2 * min(raw)
    assert all(one.p == pytest.approx(one.difference.p) for one in verdict.slices.results if one.p < 1)
    assert verdict.checks[-1].reason == "slices of city without a regression: 4; not evaluated: 0"


def test_each_slice_is_judged_as_if_it_were_alone():
    found = evaluate(scored(), RULES).slices.results[1]
    rows = CITIES == "Bern"
    whole = scored()
    alone = evaluate(
        type(whole)(
            task="binary",
            labels=whole.labels[rows],
            predictions={model: made[rows] for model, made in whole.predictions.items()},
        ),
        GateRules(),
    )
    assert (found.value, found.rows) == ("Bern", 2_500)
    assert found.difference == alone.metrics[0].differences["champion"]
    assert found.values["champion"] == alone.metrics[0].values["champion"]


def test_few_rows_and_few_clusters_are_not_evaluated():
    cities = np.where(np.arange(ROWS) < 150, "Ulm", np.where(np.arange(ROWS) < 400, "Bern", "Basel"))
    extra = {"slices": {"city": cities}, "clusters": np.arange(ROWS) // 50}
    verdict = evaluate(binary(ROWS, extra=extra, challenger=0.2, champion=0.6), RULES)
    found = {one.value: one for one in verdict.slices.results}
    assert {value: one.verdict for value, one in found.items()} == {
        "Basel": KEPT,
        "Bern": NOT_EVALUATED,
        "Ulm": NOT_EVALUATED,
    }
    assert found["Ulm"].reason == "rows: 150; 200 are needed"
    assert found["Bern"].reason == "clusters: 5; 10 are needed"
    assert found["Bern"].p_holm is None
    assert verdict.reasons[-1] == "slices of city without a regression: 1; not evaluated: 2"


def test_odd_names_are_slices_of_their_own():
    names = np.array(["", " ", "a\0", "a", "\x1b[2J", "ü" * 500, "{x}%s'\n"], object)
    odd = names[np.arange(ROWS) % len(names)]
    verdict = evaluate(scored(odd, challenger=0.9, champion=0.1), RULES)
    assert {found.value for found in verdict.slices.results} == set(names)
    assert all(found.rows > 1_400 for found in verdict.slices.results)
    assert all(reason.isprintable() and len(reason) < 500 for reason in verdict.reasons)


def test_ids_are_too_many_to_list():
    ids = np.array([f"id {row}" for row in range(ROWS)])
    verdict = evaluate(scored(ids), RULES)
    assert verdict.decision == PROMOTE
    assert len(verdict.slices.results) == 50
    assert verdict.slices.left_out == {"city": ROWS - 50}


def test_several_features_are_one_family():
    rules = GateRules(slices=("city", "day"))
    days = np.array(["Mo", "Di"])[np.arange(ROWS) // 7 % 2]
    verdict = evaluate(scored(day=days), rules)
    assert [found.feature for found in verdict.slices.results] == ["city"] * 4 + ["day"] * 2
    assert verdict.reasons[-1].startswith("slices of city, day without a regression: 6")


def test_weights_of_zero_empty_a_slice():
    extra = {"slices": {"city": CITIES}, "weights": (CITIES != "Ulm").astype(float)}
    verdict = evaluate(binary(ROWS, extra=extra, challenger=0.2, champion=0.6), RULES)
    assert [found.value for found in verdict.slices.results] == ["Basel", "Bern", "Genf"]


def test_a_first_model_has_values_on_slices_and_no_verdict():
    verdict = evaluate(binary(ROWS, extra={"slices": {"city": CITIES}}, challenger=0.3), RULES)
    assert verdict.decision == PROMOTE
    assert {found.verdict for found in verdict.slices.results} == {NOT_EVALUATED}
    assert all(found.values["challenger"].low > 0 for found in verdict.slices.results)


@pytest.mark.parametrize("weights", [None, np.random.default_rng(0).random(ROWS)])
def test_areas_of_slices_need_both_classes(weights):
    whole = scored()
    cities = np.where((whole.labels == 1) & (CITIES == "Bern"), "Basel", CITIES)
    rules = GateRules(slices=("city",), metric="auc", resamples=100)
    extra = {"slices": {"city": cities}, "weights": weights}
    found = evaluate(binary(ROWS, extra=extra, challenger=0.2, champion=0.6), rules).slices.results[1]
    assert (found.value, found.verdict) == ("Bern", NOT_EVALUATED)
    how = "" if weights is None else ", counted at equal weight"
    assert found.reason == f"rows of class '1'{how}: 0; 10 are needed"
