"""The distance of two distributions, and the distance that chance alone would put between them.

Small splits differ by chance. In all but about one of a thousand comparisons, two samples of the same data
lie closer than `chance`: only a distance above it means something.
"""

import dataclasses
import math
from collections.abc import Mapping

import numpy as np

from pipeline.data.dataset.statistics import FeatureStatistics, NumericSummary
from pipeline.data.schema.feature import Feature
from pipeline.data.schema.feature_types import Numeric

BINS = 16
# The size of the sample from which published distributions come (`statistics.accumulators.SAMPLE_ROWS`).
_SAMPLE_ROWS = 1 << 14
_LOG_ODDS = math.log(1000)  # one false alarm in a thousand
# Standard deviations of a normal distribution; more than `_LOG_ODDS` needs, because the largest of many
# differences counts.
_DEVIATIONS = 4.0


@dataclasses.dataclass(frozen=True, kw_only=True)
class Distance:
    measure: str  # "L-infinity" (a share, 0 … 1) or "Jensen-Shannon" (bits, 0 … 1)
    value: float
    chance: float
    where: str = ""  # the value whose share changed most


def distance(now: FeatureStatistics, before: FeatureStatistics) -> Distance | None:
    """The distance of one feature's present values in two datasets; None where statistics are lacking."""
    if not now.present or not before.present:
        return None
    if now.values and before.values and now.values.complete and before.values.complete:
        return l_infinity(dict(now.values.values), dict(before.values.values))
    if now.numeric and before.numeric:
        return jensen_shannon(now.numeric, now.present, before.numeric, before.present)
    return None


def l_infinity(now: Mapping[str, int], before: Mapping[str, int]) -> Distance:
    n, m = sum(now.values()), sum(before.values())
    changes = {value: abs(now.get(value, 0) / n - before.get(value, 0) / m) for value in {**now, **before}}
    where = max(changes, key=lambda value: (changes[value], value))
    pooled = (now.get(where, 0) + before.get(where, 0)) / (n + m)
    deviation = math.sqrt(pooled * (1 - pooled) * (1 / n + 1 / m))
    return Distance(measure="L-infinity", value=changes[where], chance=_DEVIATIONS * deviation, where=where)


def jensen_shannon(now: NumericSummary, n: int, before: NumericSummary, m: int) -> Distance:
    """Jensen–Shannon divergence in bits over bins that hold equal parts of `before`.

    To second order JS is χ² / (8·ln 2) of the two samples' bin counts, with one degree of freedom less than
    there are bins; the tail of χ² is bounded by Laurent and Massart (2000), lemma 1.
    """
    ends = _bin_ends(before)
    p, q = _shares(now, ends), _shares(before, ends)
    freedom = max(1, np.count_nonzero(p + q) - 1)
    bound = freedom + 2 * math.sqrt(freedom * _LOG_ODDS) + 2 * _LOG_ODDS
    per_row = 1 / min(n, _SAMPLE_ROWS) + 1 / min(m, _SAMPLE_ROWS)
    return Distance(
        measure="Jensen-Shannon", value=_divergence(p, q), chance=bound * per_row / (8 * math.log(2))
    )


def _bin_ends(numeric: NumericSummary) -> np.ndarray:
    """Inclusive ends of bins that hold equal parts, and of one more bin on each side for values outside."""
    table = np.array(numeric.distribution)
    every = table[np.linspace(0, len(table) - 1, BINS + 1).round().astype(int)]
    return np.unique([np.nextafter(every[0], -np.inf), *every[1:]])


def _shares(numeric: NumericSummary, ends: np.ndarray) -> np.ndarray:
    """Fraction of the values in each bin, float64 [bins]."""
    table = np.array(numeric.distribution)
    # Where a value repeats in the table, the last repetition says how many values lie at or below it.
    values, last = np.unique(table[::-1], return_index=True)
    below = (len(table) - 1 - last) / (len(table) - 1)
    cumulative = np.interp(ends, values, below, left=0.0, right=1.0)
    return np.diff(cumulative, prepend=0.0, append=1.0)


def _divergence(p: np.ndarray, q: np.ndarray) -> float:
    middle = (p + q) / 2

    def relative_entropy(part: np.ndarray) -> float:
        some = part > 0
        return float(np.sum(part[some] * np.log2(part[some] / middle[some])))

    return max(0.0, (relative_entropy(p) + relative_entropy(q)) / 2)


# --- The precision that a stored number loses, relative to the spread of its column; and what helps.

COARSEST = 1e-5  # standard deviations that may be lost compared with float64
# Larger, because labels have no offset. For example, float32 loses about 1e-5 of the deviation of years, but
# it holds each year exactly.
_COARSEST_LABEL = 1e-2
# Lower, because the training split may differ from the rows that a proposal has seen.
_PROPOSED_FROM = COARSEST / 2

# The largest relative errors: float32 rounds once; for int64, the number and the mean are rounded to float64.
_ROUNDING = {"float32": 2.0**-24, "int64": 2 * 2.0**-53}
# Error of a raw number while it is read; and the number up to which whole numbers are exact.
_FLOAT64, _WHOLE = 2.0**-53, 2.0**53
_SMALLEST = 2.0**-126  # TensorFlow takes smaller float32 for 0


def rounding(feature: Feature, statistics: FeatureStatistics) -> float:
    """The error of a stored number of usual size, in standard deviations; 0 for a constant column.

    If all values are one number, so large that float64 has no digits left to tell others from it, the error
    is 1.
    """
    summary = statistics.numeric
    if not summary:
        return 0.0
    raw = abs(summary.mean + _offset(feature))
    if not summary.std:
        return 1.0 if raw >= _WHOLE and statistics.present > 1 else 0.0
    some = (summary.minimum, summary.maximum, *summary.distribution)  # numbers that occur
    is_exact = raw < _WHOLE and all(number == math.floor(number) for number in some)
    on_the_way = 0.0 if is_exact else raw * _FLOAT64 / summary.std
    return max(_error(feature.dtype, summary.mean, summary.std), on_the_way)


def most_lost(feature: Feature) -> float:
    """The largest `rounding` with which a feature may be used for training."""
    return COARSEST if isinstance(feature, Numeric) else _COARSEST_LABEL


def float64_loses(numbers: np.ndarray, counts: np.ndarray) -> bool:
    """Returns whether float64 loses too much of distinct `numbers` [n], which occur `counts` [n] times."""
    mean, std = _mean_and_std(numbers / np.abs(numbers).max(), counts)
    return not std or abs(mean) * _FLOAT64 / std > COARSEST


def way_out(feature: Feature, summary: NumericSummary) -> str:
    """The remedy for a column whose stored numbers lose too much."""
    raw = abs(summary.mean + _offset(feature))
    out = ", or leave it out" if isinstance(feature, Numeric) else ""
    if feature.dtype == "int64" or raw * _FLOAT64 > COARSEST * summary.std:
        names = ", make it categorical if the numbers are names" if isinstance(feature, Numeric) else ""
        return f"Subtract a constant from the column{names}{out}"
    if abs(summary.mean) < summary.std:
        return f"Multiply the column by a constant{out}"
    if not isinstance(feature, Numeric):
        return "Subtract a constant from the column"
    offset = _short(feature.offset + summary.mean, summary.std)
    return f'Declare "offset": {offset!r} in the schema, or "number": "int64" if the numbers are whole{out}'


def _offset(feature: Feature) -> float:
    return feature.offset if isinstance(feature, Numeric) else 0.0


def offset_for(numbers: np.ndarray, counts: np.ndarray) -> float:
    """The offset for `numbers` [n], float64, which occur `counts` [n] times; 0 where float32 loses little."""
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
        distances = numbers - mean
        widest = float(np.abs(distances).max())  # its square may be too large for float64, or too small
        if not 0 < widest < np.inf:
            return mean, 0.0
        return mean, float(np.sqrt(np.average((distances / widest) ** 2, weights=counts))) * widest
