"""How much the part of missing values moved."""

from pipeline.data.dataset.statistics import FeatureStatistics
from pipeline.retraining.champion import missing_distance


def feature(present, missing):
    return FeatureStatistics(name="fare", dtype="float32", present=present, missing=missing)


def test_the_distance_is_the_change_of_the_part_that_is_missing():
    found = missing_distance(feature(700, 300), feature(9_000, 1_000))
    assert (found.measure, round(found.value, 12)) == ("missing", 0.2)
    assert found.value > found.chance


def test_chance_grows_with_fewer_rows():
    few, many = (missing_distance(feature(n, n // 10), feature(n, n // 9)) for n in (100, 100_000))
    assert few.chance > few.value
    assert many.chance < few.chance
