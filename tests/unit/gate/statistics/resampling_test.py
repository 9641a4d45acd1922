"""The bootstrap beside scikit-learn on the same resamples, and beside DeLong where that holds too."""

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from pipeline.gate.statistics.auc import Ranks, Resampled
from pipeline.gate.statistics.estimates import Sample

CLOSE = 1e-9
ROWS, CLUSTERS = 400, 50
RNG = np.random.default_rng(7)
POSITIVE = RNG.random(ROWS) < 0.4
ONE = np.round(RNG.normal(POSITIVE, 1), 1)
COLUMNS = {"one": ONE, "other": ONE + RNG.normal(0, 0.7, ROWS)}
WEIGHTS = RNG.gamma(1, 1, ROWS)
CODES = np.arange(ROWS) % CLUSTERS


def areas(model: str, *, draws: list[np.ndarray]) -> np.ndarray:
    """Of the rows with these numbers, which may repeat."""
    return np.array(
        [roc_auc_score(POSITIVE[rows], COLUMNS[model][rows], sample_weight=WEIGHTS[rows]) for rows in draws]
    )


def test_it_is_the_spread_of_resampled_clusters():
    sample = Sample(columns=COLUMNS, positive=POSITIVE, weights=WEIGHTS, clusters=CODES)
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
    sample = Sample(columns=COLUMNS, positive=POSITIVE)
    found = Resampled(sample=sample, resamples=1000, seed=0)
    for estimate in (lambda by: by.value("one"), lambda by: by.difference("one", "other")):
        expected = estimate(Ranks(sample=sample))
        assert estimate(found).value == pytest.approx(expected.value, rel=CLOSE)
        assert estimate(found).standard_error == pytest.approx(expected.standard_error, rel=0.1)


def test_the_seed_decides():
    sample = Sample(columns=COLUMNS, positive=POSITIVE, weights=WEIGHTS)
    same, again, other = (
        Resampled(sample=sample, resamples=20, seed=seed).value("one") for seed in (0, 0, 1)
    )
    assert same == again
    assert same.standard_error != other.standard_error


def test_a_class_that_few_resamples_hold_has_no_interval():
    positive = np.arange(ROWS) == 3
    sample = Sample(columns=COLUMNS, positive=positive, weights=WEIGHTS)
    found = Resampled(sample=sample, resamples=200, seed=0).value("one")
    assert np.isfinite(found.value)
    assert np.isnan(found.interval(0.95)).all()
