"""Which numbers stand apart and repeat, of distributions whose others are known."""

import numpy as np
import pytest

from pipeline.data.statistics.sentinels import are_sentinels

USUAL = {
    "degrees": lambda chance, n: chance.normal(20, 5, n).round(1),
    "whole": lambda chance, n: chance.normal(20, 5, n).round(),
    "heavy": lambda chance, n: chance.lognormal(3, 1.5, n).round(),
    "power": lambda chance, n: chance.pareto(1.2, n).round(1),
    "zipf": lambda chance, n: chance.zipf(1.7, n).astype(float),
    "waits": lambda chance, n: chance.exponential(100, n).round(),
    "counts": lambda chance, n: chance.poisson(2, n),
    "tens": lambda chance, n: chance.choice([1, 10, 100, 1000, 10_000], n),
    "sizes": lambda chance, n: chance.choice([8, 16, 32, 64, 128, 256, 512], n),
    "rain": lambda chance, n: np.where(chance.random(n) < 0.3, 0, chance.gamma(2, 50, n).round()),
    "signs": lambda chance, n: chance.normal(3, 2, n).round(),
}


def found(values: np.ndarray) -> list[float]:
    numbers, counts = np.unique(values.astype(float), return_counts=True)
    return numbers[are_sentinels(numbers, counts)].tolist()


@pytest.mark.parametrize("name", USUAL)
def test_usual_numbers_hold_none(name: str):
    chance = np.random.default_rng(5)
    assert [found(USUAL[name](chance, n)) for n in (50, 300, 1000, 3000)] == [[]] * 4


@pytest.mark.parametrize("name", ["degrees", "whole", "waits", "counts", "rain"])
@pytest.mark.parametrize(
    "sentinels", [[-200], [-999.25], [9.96921e36], [-32768], [-1e308], [-9999, 1e6], [-999, -998]]
)
def test_one_that_stands_apart_is_found(name: str, sentinels: list[float]):
    chance = np.random.default_rng(6)
    values = np.array(USUAL[name](chance, 1000), float)
    values[:60] = np.resize(sentinels, 60)
    assert found(values) == sorted(sentinels)
    once = np.append(values[60:], sentinels[:1])
    assert found(once) == []


def test_codes_below_0_are_found_where_they_are_frequent():
    counts = np.arange(40).repeat(5)
    assert found(np.append(counts, 20 * [-1.0])) == [-1]
    assert found(np.append(counts, [-1.0, -1.0])) == []
