"""The demo's days of trips: the same each time, learnable, and one of them in other units."""

import hashlib
import pathlib

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score

from demo import trips

COLUMN = {name: number for number, name in enumerate(trips.COLUMNS)}


def column(day: int, name: str) -> np.ndarray:
    return np.array([trip[COLUMN[name]] for trip in trips.trips(day)])


def inputs(day: int) -> np.ndarray:
    """What a plain model gets: pace, miles, the hour on its circle, and the payment."""
    hour = column(day, "hour") * np.pi / 12
    miles, payment = column(day, "miles"), column(day, "payment")
    paid = [payment == each for each in trips.PAYMENTS]
    return np.stack([column(day, "minutes") / miles, miles, np.cos(hour), np.sin(hour), *paid], axis=1)


def test_a_day_is_written_once_the_same_each_time_and_whole(tmp_path: pathlib.Path):
    first, again = (trips.write_day(tmp_path / name, 2) / "trips.csv" for name in ("a", "b"))
    assert first.parent.name == "date=2026-11-02"
    assert first.read_bytes() == again.read_bytes()
    assert [path.name for path in (tmp_path / "a").iterdir()] == ["date=2026-11-02"]  # no draft is left
    first.write_text("kept")
    assert trips.write_day(tmp_path / "a", 2) == first.parent
    assert first.read_text() == "kept"


def test_days_are_different_ones_of_one_kind():
    texts = {hashlib.sha256(repr(trips.trips(day)).encode()).hexdigest() for day in range(1, 6)}
    assert len(texts) == 5
    for day in (1, 2, 3, 5):
        assert 3 < column(day, "miles").mean() < 6
        assert 0.4 < (column(day, "big_tip") == "yes").mean() < 0.6


def test_a_model_of_one_day_knows_much_of_another_and_not_all():
    model = LogisticRegression(max_iter=1000).fit(inputs(1), column(1, "big_tip"))
    auc = roc_auc_score(column(2, "big_tip"), model.predict_proba(inputs(2))[:, 1])
    assert 0.9 < auc < 0.99


def test_the_bad_day_is_as_the_others_but_for_its_units():
    good, bad = column(3, "miles"), column(trips.BAD_DAY, "miles")
    assert np.median(bad) / np.median(good) == pytest.approx(trips.METRES_IN_A_MILE, rel=0.1)
    assert 0.4 < (column(trips.BAD_DAY, "big_tip") == "yes").mean() < 0.6
