"""What storing a number loses of it, beside how far a column's numbers are spread; and what helps."""

import math

import numpy as np

from pipeline.data.dataset.statistics import FeatureStatistics, NumericSummary
from pipeline.data.schema.kinds import Numeric

COARSEST = 1e-5  # standard deviations that may be lost: a model is fed with what float64 makes, up to this
_PROPOSED_FROM = COARSEST / 2  # the training split may lie otherwise than what a proposal has seen

# The largest relative errors: of rounding to float32; of an int64 and of the mean, each rounded to float64.
_ROUNDING = {"float32": 2.0**-24, "int64": 2 * 2.0**-53}
_SMALLEST = 2.0**-126  # float32 below is taken for 0 by TensorFlow


def rounding(feature: Numeric, statistics: FeatureStatistics) -> float:
    """The error of a stored number of usual size, in standard deviations; 0 for a constant column."""
    summary = statistics.numeric
    return _error(feature.dtype, summary.mean, summary.std) if summary else 0.0


def way_out(feature: Numeric, summary: NumericSummary) -> str:
    """What to do about a column of which storing loses too much."""
    if feature.dtype == "int64":
        return "Subtract a constant from the column, make it categorical if the numbers are names"
    if abs(summary.mean) < summary.std:
        return "Multiply the column by a constant"
    offset = _short(feature.offset + summary.mean, summary.std)
    return f'Declare "offset": {offset!r} in the schema, or "number": "int64" if the numbers are whole'


def offset_for(numbers: np.ndarray, counts: np.ndarray) -> float:
    """What to subtract from `numbers` [n], float64, each seen `counts` [n] times, before they become float32.

    0 where float32 loses little of them as they are.
    """
    mean, std = _mean_and_std(numbers, counts)
    if abs(mean) < std or _error("float32", mean, std) < _PROPOSED_FROM:
        return 0.0
    return _short(mean, std)


def _error(dtype: str, mean: float, std: float) -> float:
    smallest = _SMALLEST if dtype == "float32" else 0.0
    return max(abs(mean) * _ROUNDING[dtype], smallest) / std if std else 0.0


def _short(mean: float, std: float) -> float:
    """A number of few digits within one standard deviation of the mean."""
    return round(mean, -math.floor(math.log10(std)))


def _mean_and_std(numbers: np.ndarray, counts: np.ndarray) -> tuple[float, float]:
    with np.errstate(over="ignore", invalid="ignore"):
        mean = float(np.average(numbers, weights=counts))
        apart = numbers - mean
        widest = float(np.abs(apart).max())  # its square may be beyond float64, or below it
        if not 0 < widest < np.inf:
            return mean, 0.0
        return mean, float(np.sqrt(np.average((apart / widest) ** 2, weights=counts))) * widest
