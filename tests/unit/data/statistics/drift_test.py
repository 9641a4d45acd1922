"""Distances against textbook values, and that chance alone is not called drift."""

import numpy as np
import pytest
from scipy.spatial import distance as scipy_distance

from pipeline.data.dataset.statistics import NumericSummary
from pipeline.data.statistics import drift


def summary(values: np.ndarray) -> NumericSummary:
    return NumericSummary(
        minimum=float(values.min()),
        maximum=float(values.max()),
        mean=0.0,
        std=0.0,
        zeros=0,
        quantiles=(),
        distribution=tuple(np.quantile(values, np.arange(257) / 256, method="inverted_cdf").tolist()),
    )


def test_l_infinity_is_the_largest_change_of_a_share():
    found = drift.l_infinity({"cash": 30, "card": 70}, {"cash": 50, "card": 45, "other": 5})
    assert (found.value, found.where) == (pytest.approx(0.25), "card")


def test_jensen_shannon_agrees_with_scipy():
    rng = np.random.default_rng(0)
    before, now = rng.normal(0, 1, 10_000), rng.normal(0.5, 1.2, 10_000)
    edges = [-np.inf, *np.quantile(before, np.arange(drift.BINS + 1) / drift.BINS), np.inf]
    p, q = (np.histogram(values, edges)[0] / 10_000 for values in (now, before))
    found = drift.jensen_shannon(summary(now), 10_000, summary(before), 10_000)
    assert found.value == pytest.approx(scipy_distance.jensenshannon(p, q, base=2) ** 2, rel=0.03)


def test_disjoint_numbers_are_one_bit_apart():
    low, high = np.arange(100.0), np.arange(200.0, 300.0)
    assert drift.jensen_shannon(summary(high), 100, summary(low), 100).value == pytest.approx(1.0)


@pytest.mark.parametrize("decimals", [0, 1, 6])
def test_chance_is_not_drift(decimals: int):
    rng = np.random.default_rng(1)
    for rows in (100, 1000, 10_000):
        one, other = np.round(rng.normal(0, 3, (2, rows)), decimals) + 0.0
        found = drift.jensen_shannon(summary(one), rows, summary(other), rows)
        assert found.value < max(found.chance, 0.01)
        counts = [dict(zip(*np.unique(part, return_counts=True), strict=True)) for part in (one, other)]
        categories = drift.l_infinity(*[{str(k): int(n) for k, n in part.items()} for part in counts])
        assert categories.value < categories.chance


def test_a_shift_of_half_a_deviation_is_more_than_chance():
    rng = np.random.default_rng(2)
    one, other = rng.normal(0, 1, 2000), rng.normal(0.5, 1, 2000)
    found = drift.jensen_shannon(summary(one), 2000, summary(other), 2000)
    assert found.value > found.chance
