"""Shares beside statsmodels' Wilson and McNemar, Tango's score beside a likelihood that is searched."""

import numpy as np
import pytest
from scipy import optimize, stats
from statsmodels.stats.contingency_tables import mcnemar
from statsmodels.stats.proportion import proportion_confint, proportions_ztest

from pipeline.gate.statistics.estimates import Sample
from pipeline.gate.statistics.shares import PairedShares, Share, Shares

CLOSE = 1e-9
TABLES = [(9, 3, 40), (25, 40, 900), (0, 6, 50), (7, 0, 30), (120, 60, 200)]


def test_hits_become_counts():
    hits = {"one": np.array([1.0, 1, 0, 1, 0]), "other": np.array([1.0, 0, 1, 0, 0])}
    found = Shares(sample=Sample(columns=hits))
    assert found.value("one") == Share(right=3, units=5)
    assert found.difference("one", "other") == PairedShares(gained=2, lost=1, units=5)
    assert found.difference("one", "other").value == pytest.approx(0.2)


@pytest.mark.parametrize("right", [0, 1, 17, 50])
def test_a_share_is_wilsons(right):
    found = Share(right=right, units=50)
    assert found.interval(0.9) == pytest.approx(
        proportion_confint(right, 50, 0.1, method="wilson"), rel=CLOSE
    )
    of_scipy = stats.binomtest(right, 50).proportion_ci(0.9, method="wilson")
    assert found.interval(0.9) == pytest.approx(of_scipy, rel=CLOSE, abs=CLOSE)
    assert found.p(0.4) == pytest.approx(proportions_ztest(right, 50, 0.4, prop_var=0.4)[1], rel=CLOSE)


@pytest.mark.parametrize(("gained", "lost", "rows"), TABLES)
def test_the_p_value_is_mcnemars(gained, lost, rows):
    table = [[rows - gained - lost, gained], [lost, 0]]
    expected = mcnemar(table, exact=False, correction=False).pvalue
    assert PairedShares(gained=gained, lost=lost, units=rows).p() == pytest.approx(expected, rel=CLOSE)


@pytest.mark.parametrize(("gained", "lost", "rows"), TABLES)
@pytest.mark.parametrize("null", [-0.3, -0.02, 0.1])
def test_the_score_is_that_of_the_most_likely_table(gained, lost, rows, null):
    def unlikelihood(share_lost: float) -> float:
        share_gained = share_lost + null
        rest = 1 - share_gained - share_lost
        shares, counts = (share_gained, share_lost, rest), (gained, lost, rows - gained - lost)
        return -sum(count * np.log(share) for share, count in zip(shares, counts, strict=True) if count)

    bounds = (max(0, -null) + 1e-12, (1 - null) / 2 - 1e-12)
    share_lost = optimize.minimize_scalar(
        unlikelihood, bounds=bounds, method="bounded", options={"xatol": 1e-12}
    ).x
    variance = rows * (2 * share_lost + null - null**2)
    expected = (gained - lost - rows * null) / np.sqrt(variance)
    found = PairedShares(gained=gained, lost=lost, units=rows).score(null)
    assert found == pytest.approx(expected, rel=1e-5)  # as exactly as the search finds the flat top


@pytest.mark.parametrize(("gained", "lost", "rows"), TABLES)
def test_the_interval_ends_where_the_test_refutes(gained, lost, rows):
    found = PairedShares(gained=gained, lost=lost, units=rows)
    for end in found.interval(0.95):
        assert found.p(end) == pytest.approx(0.05, abs=1e-9)


def test_many_pairs_have_the_interval_of_a_t_test():
    pairs = np.repeat([1.0, -1.0, 0.0], [5_200, 4_800, 90_000])
    expected = stats.ttest_1samp(pairs, 0).confidence_interval(0.95)
    found = PairedShares(gained=5_200, lost=4_800, units=100_000)
    assert found.interval(0.95) == pytest.approx(tuple(expected), rel=1e-2)


@pytest.mark.parametrize(("gained", "lost", "end"), [(20, 0, 1.0), (0, 20, -1.0)])
def test_all_pairs_differ_the_same_way(gained, lost, end):
    found = PairedShares(gained=gained, lost=lost, units=20)
    assert found.value == end
    assert found.interval(0.95)[end > 0] == end
    assert 0 < abs(found.interval(0.95)[end < 0]) < 1
    assert found.p() < 1e-4


def test_equal_answers_leave_open_what_a_few_rows_can():
    found = PairedShares(gained=0, lost=0, units=20)
    low, high = found.interval(0.95)
    assert low == pytest.approx(-high)
    assert 0.1 < high < 0.25
    assert found.p() == 1
