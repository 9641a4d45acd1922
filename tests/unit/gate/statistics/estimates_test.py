"""Means and power beside scipy, and beside the sandwich of statsmodels."""

import dataclasses
import math

import numpy as np
import pytest
import statsmodels.api as sm
from scipy import stats
from statsmodels.stats.power import TTestPower

from pipeline.gate.statistics import estimates
from pipeline.gate.statistics.estimates import (
    CLUSTERED,
    PLAIN,
    WEIGHTED,
    Means,
    Sample,
    StudentT,
    deciding_examples,
    mean,
)

ROWS = 300
RNG = np.random.default_rng(3)
ONE, OTHER = RNG.gamma(2, 1, ROWS), RNG.gamma(2, 1.1, ROWS)
WEIGHTS = RNG.gamma(1, 1, ROWS)
CLUSTERS = np.unique(RNG.integers(40, size=ROWS), return_inverse=True)[1]
CLOSE = 1e-9


def sample(**kept) -> Sample:
    return Sample(columns={"one": ONE, "other": OTHER}, **kept)


def test_a_plain_difference_is_scipys_paired_t_test(monkeypatch):
    monkeypatch.setattr(estimates, "_skew", lambda parts: 0.0)
    found, expected = Means(sample=sample()).difference("one", "other"), stats.ttest_rel(ONE, OTHER)
    assert found.method == PLAIN
    assert found.value == pytest.approx(np.mean(ONE - OTHER), rel=CLOSE)
    assert found.p() == pytest.approx(expected.pvalue, rel=CLOSE)
    assert found.interval(0.9) == pytest.approx(tuple(expected.confidence_interval(0.9)), rel=CLOSE)
    assert found.p(-0.3) == pytest.approx(stats.ttest_1samp(ONE - OTHER, -0.3).pvalue, rel=CLOSE)
    less = stats.ttest_1samp(ONE - OTHER, -0.1, alternative="less").pvalue
    assert found.tails(-0.1)[0] == pytest.approx(less, rel=CLOSE)


@pytest.mark.parametrize("weights", [None, WEIGHTS])
def test_a_difference_of_clusters_is_statsmodels_sandwich(weights, monkeypatch):
    monkeypatch.setattr(estimates, "_skew", lambda parts: 0.0)
    found = Means(sample=sample(weights=weights, clusters=CLUSTERS)).difference("one", "other")
    model = sm.WLS(ONE - OTHER, np.ones(ROWS), weights=1.0 if weights is None else weights)
    expected = model.fit(cov_type="cluster", cov_kwds={"groups": CLUSTERS}, use_t=True)
    assert found.method == CLUSTERED
    assert found.units == 40
    assert found.value == pytest.approx(expected.params[0], rel=CLOSE)
    assert found.standard_error == pytest.approx(expected.bse[0], rel=CLOSE)
    assert found.interval(0.95) == pytest.approx(tuple(expected.conf_int(0.05)[0]), rel=CLOSE)
    assert found.p() == pytest.approx(expected.pvalues[0], rel=CLOSE)


def test_a_weighted_mean_is_statsmodels_hc1(monkeypatch):
    monkeypatch.setattr(estimates, "_skew", lambda parts: 0.0)
    found = Means(sample=sample(weights=WEIGHTS), bounds=(0.0, np.inf)).value("one")
    expected = sm.WLS(ONE, np.ones(ROWS), weights=WEIGHTS).fit(cov_type="HC1", use_t=True)
    assert found.method == WEIGHTED
    assert found.value == pytest.approx(expected.params[0], rel=CLOSE)
    assert found.standard_error == pytest.approx(expected.bse[0], rel=CLOSE)
    assert found.interval(0.99) == pytest.approx(tuple(expected.conf_int(0.01)[0]), rel=CLOSE)


@pytest.mark.parametrize("sign", [1, -1])
def test_an_interval_of_skewed_numbers_reaches_as_far_as_halls(sign):
    numbers = sign * RNG.gamma(0.1, 1, 80)
    found, reach = mean(numbers, weights=None, clusters=None), stats.t.ppf(0.975, 79)
    s = stats.skew(numbers) / np.sqrt(80)

    def refuted(truth: float) -> bool:
        t = (numbers.mean() - truth) / stats.sem(numbers)
        hall = t + s * t**2 / 3 + s**2 * t**3 / 27 + s / 6
        return min(abs(t), abs(hall)) > reach

    low, high = found.interval(0.95)
    near = 1e-6 * (high - low)
    assert [refuted(at) for at in (low - near, low + near, high - near, high + near)] == [1, 0, 0, 1]
    by_t = stats.ttest_1samp(numbers, 0).confidence_interval(0.95)
    assert (low, high) == pytest.approx((by_t.low, high) if sign > 0 else (low, by_t.high), rel=CLOSE)
    assert found.p(low) == pytest.approx(0.05, rel=1e-6)


def test_where_one_class_is_rare_chance_promotes_no_more_than_it_may():
    """The loss of two models that differ by their bias, in units of it; the truth is 0. By t it is 4.3%."""
    rng = np.random.default_rng(0)
    gains = ((0.01 - (rng.random(2_000) < 0.01)) for _ in range(1_000))
    found = [mean(each, weights=None, clusters=None).interval(0.95)[0] > 0 for each in gains]
    assert np.mean(found) < 0.025


def test_each_row_as_a_cluster_is_no_cluster():
    clustered = mean(ONE, weights=WEIGHTS, clusters=np.arange(ROWS))
    assert clustered.standard_error == pytest.approx(
        mean(ONE, weights=WEIGHTS, clusters=None).standard_error, rel=CLOSE
    )


def test_an_interval_does_not_leave_what_a_loss_can_be():
    found = Means(sample=Sample(columns={"one": np.array([0.0] * 9 + [5.0])}), bounds=(0.0, np.inf))
    low, high = found.value("one").interval(0.95)
    assert low == 0.0
    assert high > 1


@pytest.mark.parametrize("numbers", [[2.5], [2.5, 2.5]])
def test_one_unit_has_no_interval(numbers):
    found = mean(np.array(numbers), weights=None, clusters=np.zeros(len(numbers), np.int64))
    assert found.value == 2.5
    assert np.isnan(found.interval(0.95)).all()


def test_a_constant_difference_is_certain():
    found = mean(np.full(50, 0.25), weights=None, clusters=None)
    assert found.interval(0.95) == (0.25, 0.25)
    assert found.p() == 0
    assert found.tails(0.5) == (0, 1)


def test_no_difference_at_all_refutes_nothing():
    found = mean(np.zeros(50), weights=None, clusters=None)
    assert found.interval(0.95) == (0, 0)
    assert found.p() == 1
    assert found.tails(-0.1) == (1, 0)


# The number of examples that would decide, beside statsmodels' power of a t-test.
FOUND = StudentT(value=0.01, standard_error=0.008, units=2_000, degrees=1_999, method="")


def needed(estimate: StudentT, *, null: float = 0.0, rows: int = 2_000) -> int | None:
    return deciding_examples(estimate, null=null, rows=rows, confidence=0.95, power=0.9)


def test_it_is_the_sample_size_of_a_t_test():
    effect = 0.01 / (0.008 * math.sqrt(2_000))
    expected = TTestPower().solve_power(effect_size=effect, alpha=0.05, power=0.9)
    assert needed(FOUND) == pytest.approx(expected, rel=1e-3)
    assert needed(FOUND) > 2_000


def test_the_margin_counts_as_the_null():
    assert needed(FOUND, null=-0.01) == pytest.approx(needed(FOUND) / 4, rel=1e-3)


def test_clusters_count_at_their_mean_size():
    clustered = dataclasses.replace(FOUND, units=100, degrees=99)
    assert needed(clustered) == needed(FOUND)


@pytest.mark.parametrize(
    "estimate",
    [
        dataclasses.replace(FOUND, value=0.0),
        dataclasses.replace(FOUND, standard_error=math.nan),
        dataclasses.replace(FOUND, value=1e-12),
    ],
)
def test_no_number_is_said_where_none_would_do(estimate):
    assert needed(estimate) is None
