"""Areas beside scikit-learn, their covariance beside all pairs, and the bootstrap beside DeLong."""

import numpy as np
import pytest
from scipy import stats
from sklearn.metrics import roc_auc_score

from pipeline.gate.statistics.auc import Ranks, Resampled
from pipeline.gate.statistics.estimates import Sample

CLOSE = 1e-9
RNG = np.random.default_rng(5)
POSITIVE = RNG.random(160) < 0.3
ONE = np.round(RNG.normal(POSITIVE, 1), 1)  # rounded, so that some are equal
OTHER = np.round(ONE + RNG.normal(0, 0.7, 160), 1)


def found() -> Ranks:
    return Ranks(sample=Sample(columns={"one": ONE, "other": OTHER}, labels=POSITIVE.astype(int)))


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
    degrees = POSITIVE.sum() - 1  # the rarer class
    assert difference.interval(0.95) == pytest.approx(
        stats.t.interval(0.95, degrees, value, error), rel=CLOSE
    )
    assert difference.p() == pytest.approx(2 * stats.t.sf(abs(value) / error, degrees), rel=CLOSE)


def test_copies_add_nothing_to_an_area():
    """Three copies of each row: the areas and errors of one, but for G / (G - 1) of the clusters."""
    rows = np.repeat(np.arange(160), 3)
    columns = {"one": ONE[rows], "other": OTHER[rows]}
    sample = Sample(columns=columns, labels=POSITIVE[rows].astype(int), clusters=rows, are_copies=True)
    copied, single = (each.difference("one", "other") for each in (Ranks(sample=sample), found()))
    assert copied.value == pytest.approx(single.value, rel=CLOSE)
    assert copied.standard_error == pytest.approx(single.standard_error, rel=CLOSE)
    assert (copied.units, copied.degrees) == (160, single.degrees)


def test_the_same_ranking_does_not_differ():
    sample = Sample(columns={"one": ONE, "cubed": ONE**3}, labels=POSITIVE.astype(int))
    assert Ranks(sample=sample).difference("one", "cubed").p() == 1


def test_equal_scores_are_worth_half():
    sample = Sample(columns={"one": np.full(160, 0.5)}, labels=POSITIVE.astype(int))
    assert Ranks(sample=sample).value("one").interval(0.95) == (0.5, 0.5)


@pytest.mark.parametrize("positive", [np.zeros(5, bool), np.ones(5, bool)])
def test_one_class_alone_has_no_area(positive):
    sample = Sample(columns={"one": np.arange(5.0)}, labels=positive.astype(int))
    area = Ranks(sample=sample).value("one")
    assert np.isnan([area.value, *area.interval(0.95)]).all()


# The bootstrap beside scikit-learn on the same resamples, and beside DeLong where that holds too.
ROWS, CLUSTERS = 400, 50
DRAW = np.random.default_rng(7)
ARE_POSITIVE = DRAW.random(ROWS) < 0.4
SCORES = np.round(DRAW.normal(ARE_POSITIVE, 1), 1)
COLUMNS = {"one": SCORES, "other": SCORES + DRAW.normal(0, 0.7, ROWS)}
WEIGHTS = DRAW.gamma(1, 1, ROWS)
CODES = np.arange(ROWS) % CLUSTERS


def areas(model: str, *, draws: list[np.ndarray]) -> np.ndarray:
    """Of the rows with these numbers, which may repeat."""
    return np.array(
        [
            roc_auc_score(ARE_POSITIVE[rows], COLUMNS[model][rows], sample_weight=WEIGHTS[rows])
            for rows in draws
        ]
    )


def test_it_is_the_spread_of_resampled_clusters():
    sample = Sample(columns=COLUMNS, labels=ARE_POSITIVE.astype(int), weights=WEIGHTS, clusters=CODES)
    found = Resampled(sample=sample, resamples=30, seed=4).difference("one", "other")
    rng = np.random.default_rng(4)
    members = [np.flatnonzero(cluster == CODES) for cluster in range(CLUSTERS)]
    draws = [
        np.concatenate([members[one] for one in rng.integers(CLUSTERS, size=CLUSTERS)]) for _ in range(30)
    ]
    differences = areas("one", draws=draws) - areas("other", draws=draws)
    own = [np.arange(ROWS)]
    assert found.value == pytest.approx((areas("one", draws=own) - areas("other", draws=own))[0], rel=CLOSE)
    assert found.standard_error == pytest.approx(differences.std(ddof=1), rel=CLOSE)
    assert found.units == CLUSTERS
    assert found.method == "paired cluster bootstrap, 30 resamples, seed 4"


def test_it_agrees_with_delong_where_rows_stand_alone():
    sample = Sample(columns=COLUMNS, labels=ARE_POSITIVE.astype(int))
    found = Resampled(sample=sample, resamples=1000, seed=0)
    for estimate in (lambda by: by.value("one"), lambda by: by.difference("one", "other")):
        expected = estimate(Ranks(sample=sample))
        assert estimate(found).value == pytest.approx(expected.value, rel=CLOSE)
        assert estimate(found).standard_error == pytest.approx(expected.standard_error, rel=0.1)


def test_the_seed_decides():
    sample = Sample(columns=COLUMNS, labels=ARE_POSITIVE.astype(int), weights=WEIGHTS)
    same, again, other = (
        Resampled(sample=sample, resamples=20, seed=seed).value("one") for seed in (0, 0, 1)
    )
    assert same == again
    assert same.standard_error != other.standard_error


def test_a_class_that_few_resamples_hold_has_no_interval():
    positive = np.arange(ROWS) == 3
    sample = Sample(columns=COLUMNS, labels=positive.astype(int), weights=WEIGHTS)
    found = Resampled(sample=sample, resamples=200, seed=0).value("one")
    assert np.isfinite(found.value)
    assert np.isnan(found.interval(0.95)).all()
