"""The number of examples that would decide, beside statsmodels' power of a t-test."""

import dataclasses
import math

import pytest
from statsmodels.stats.power import TTestPower

from pipeline.gate.statistics.estimates import StudentT, deciding_examples

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
