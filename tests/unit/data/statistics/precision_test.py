"""Which columns need an offset so that float32 holds them, and which one."""

from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest

from beam_jobs.cells.typed import parse
from beam_jobs.schema.features import propose_feature
from pipeline.data.dataset.statistics import FeatureStatistics
from pipeline.data.schema.feature import Feature
from pipeline.data.schema.feature_types import Label, Numeric
from pipeline.data.statistics.accumulators import gathered_of
from pipeline.data.statistics.drift import COARSEST, offset_for, rounding, way_out
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


def gathered(feature: Feature, cells: list[str]) -> FeatureStatistics:
    """The statistics that a conversion of these cells measures."""
    accumulator = gathered_of(feature)
    accumulator.add(np.arange(len(cells), dtype=np.uint64), parse(feature, pa.array(cells)).values)
    return accumulator.result(feature)


@pytest.mark.parametrize("first", [0, 10**12, 10**15, 2**53, 10**18, 2**63, 10**21, 10**30])
@pytest.mark.parametrize("step", [1, 3, 10**6])
@pytest.mark.parametrize("stored", ["float32", "offset", "int64", "label"])
def test_what_numbers_lose_on_their_way_is_refused(first: int, step: int, stored: str):
    whole = [first + step * at for at in range(1000)]
    feature = {
        "float32": Numeric(name="x"),
        "offset": Numeric(name="x", offset=float(first)),
        "int64": Numeric(name="x", number="int64"),
        "label": Label(name="x", task="regression"),
    }[stored]
    if stored == "int64" and whole[-1] >= 2**63:
        assert len(parse(feature, pa.array([*map(str, whole)])).problems) > 0  # rejected, with the reason
        return
    statistics = gathered(feature, [*map(str, whole)])
    # Independently: what a model is given, against the exact distance from the exact mean.
    values = parse(feature, pa.array([*map(str, whole)])).values.to_numpy().astype(np.float64)
    values = values if stored == "int64" else values.astype(np.float32).astype(np.float64)
    mean = Fraction(sum(whole), len(whole))
    exact = np.array([float(number - mean) for number in whole])
    given = values - values.mean()
    lost = np.sqrt(np.mean((given - exact) ** 2)) / exact.std()
    assert lost <= COARSEST or rounding(feature, statistics) > COARSEST
    if rounding(feature, statistics) > COARSEST:
        assert lost > COARSEST / 100  # the bound is no more than it promises
        assert " a constant" in way_out(feature, statistics.numeric) or "offset" in way_out(
            feature, statistics.numeric
        )


def test_one_number_is_no_loss_where_float64_has_all_digits():
    assert rounding(Numeric(name="x"), gathered(Numeric(name="x"), ["7", "7", "7"])) == 0
    huge = gathered(Numeric(name="x"), [str(10**18 + at) for at in range(9)])
    assert (huge.numeric.std, rounding(Numeric(name="x"), huge)) == (0, 1)
