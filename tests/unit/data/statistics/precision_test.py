"""Which columns need an offset so that float32 holds them, and which one."""

import numpy as np
import pytest

from beam_jobs.schema.features import propose_feature
from pipeline.data.statistics.drift import offset_for
from tests.unit.beam_jobs.schema.profiles import profile

EVEN = np.linspace(-1, 1, 101)


@pytest.mark.parametrize(
    ("numbers", "offset"),
    [
        (-73.9142 + 0.05 * EVEN, -73.91),
        (1_700_000_123 + 3600 * EVEN, 1_700_000_000.0),
        (1e9 + 1e5 * EVEN, 1e9),
        (50 + 10 * EVEN, 0.0),
        (EVEN, 0.0),
        (EVEN * 1e-30, 0.0),
        (EVEN * 1e300, 0.0),
        (np.full(3, 1e9), 0.0),
    ],
)
def test_numbers_far_beyond_their_spread_get_a_short_offset(numbers, offset):
    assert offset_for(numbers, np.ones(len(numbers))) == offset


def test_numbers_count_as_often_as_they_were_seen():
    numbers = np.array([0.0, 1e6, 1e6 + 1])
    assert offset_for(numbers, np.array([1, 1000, 1000])) == 0.0  # that one 0 is far from all others
    assert offset_for(numbers[1:], np.array([1, 3])) == pytest.approx(1e6 + 1, abs=1)


def test_it_is_proposed_of_what_float32_stores():
    assert propose_feature(profile("47.3771", "47.3772", "", "47.3773")).offset == pytest.approx(47.3772)
    assert propose_feature(profile("$1,000,000.5", "$1,000,001.5")).offset == 1_000_001.0
    assert propose_feature(profile(*range(1_700_000_000, 1_700_000_100))).offset == 0.0  # an int64
