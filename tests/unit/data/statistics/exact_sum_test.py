"""Sums without rounding, against fractions."""

import math
import random
from fractions import Fraction

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from pipeline.data.statistics import accumulators

finite = st.lists(st.floats(allow_nan=False, allow_infinity=False), max_size=50)


@given(finite)
def test_the_sum_is_exact(values: list[float]):
    scaled = accumulators.scaled_sum(np.array(values, np.float64))
    assert Fraction(scaled, 1 << 1126) == sum(map(Fraction, values))


@given(finite)
def test_the_sum_of_squares_is_exact(values: list[float]):
    scaled = accumulators.scaled_square_sum(np.array(values, np.float64))
    assert Fraction(scaled, 1 << 2252) == sum(Fraction(value) ** 2 for value in values)


def test_many_large_values_do_not_overflow():
    values = np.full(100_000, np.nextafter(2.0, 0.0))
    assert Fraction(accumulators.scaled_square_sum(values), 1 << 2252) == 100_000 * Fraction(values[0]) ** 2


def test_mean_and_standard_deviation_do_not_cancel():
    values = [1e9 + value for value in (4.0, 7.0, 13.0, 16.0)]
    random.Random(0).shuffle(values)
    array = np.array(values)
    mean, std = accumulators.mean_and_std(
        count=4,
        scaled=accumulators.scaled_sum(array),
        scaled_squares=accumulators.scaled_square_sum(array),
    )
    assert mean == 1e9 + 10
    assert math.isclose(std, math.sqrt(22.5), rel_tol=1e-15)
