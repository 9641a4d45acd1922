"""Areas beside scikit-learn's, their covariance beside all pairs counted one by one."""

import numpy as np
import pytest
from scipy import stats
from sklearn.metrics import roc_auc_score

from pipeline.gate.statistics.auc import Ranks
from pipeline.gate.statistics.estimates import Sample

CLOSE = 1e-9
RNG = np.random.default_rng(5)
POSITIVE = RNG.random(160) < 0.3
ONE = np.round(RNG.normal(POSITIVE, 1), 1)  # rounded, so that some are equal
OTHER = np.round(ONE + RNG.normal(0, 0.7, 160), 1)


def found() -> Ranks:
    return Ranks(sample=Sample(columns={"one": ONE, "other": OTHER}, positive=POSITIVE))


def wins(scores: np.ndarray) -> np.ndarray:
    """Of each positive row over each negative: 1, or half where they are equal."""
    above, below = scores[POSITIVE][:, None], scores[~POSITIVE][None]
    return (above > below) + 0.5 * (above == below)


def standard_error(pairs: np.ndarray) -> float:
    rows, columns = pairs.shape
    return np.sqrt(pairs.mean(1).var(ddof=1) / rows + pairs.mean(0).var(ddof=1) / columns)


def test_an_area_is_scikit_learns_with_delongs_error():
    area = found().value("one")
    assert area.value == pytest.approx(roc_auc_score(POSITIVE, ONE), rel=CLOSE)
    assert area.standard_error == pytest.approx(standard_error(wins(ONE)), rel=CLOSE)


def test_a_difference_is_paired():
    difference, error = found().difference("one", "other"), standard_error(wins(ONE) - wins(OTHER))
    value = roc_auc_score(POSITIVE, ONE) - roc_auc_score(POSITIVE, OTHER)
    assert difference.value == pytest.approx(value, rel=CLOSE)
    assert difference.standard_error == pytest.approx(error, rel=CLOSE)
    assert difference.interval(0.95) == pytest.approx(stats.norm.interval(0.95, value, error), rel=CLOSE)
    assert difference.p() == pytest.approx(2 * stats.norm.sf(abs(value) / error), rel=CLOSE)


def test_the_same_ranking_does_not_differ():
    sample = Sample(columns={"one": ONE, "cubed": ONE**3}, positive=POSITIVE)
    assert Ranks(sample=sample).difference("one", "cubed").p() == 1


def test_equal_scores_are_worth_half():
    sample = Sample(columns={"one": np.full(160, 0.5)}, positive=POSITIVE)
    assert Ranks(sample=sample).value("one").interval(0.95) == (0.5, 0.5)


@pytest.mark.parametrize("positive", [np.zeros(5, bool), np.ones(5, bool)])
def test_one_class_alone_has_no_area(positive):
    sample = Sample(columns={"one": np.arange(5.0)}, positive=positive)
    area = Ranks(sample=sample).value("one")
    assert np.isnan([area.value, *area.interval(0.95)]).all()
