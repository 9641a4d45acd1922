"""Exact sums of float64 values: the same bits in whatever order parts are added.

Every finite float64 is a whole multiple of 2^-1074, so a sum of them is one (large) integer. The values of a
batch are split into 53-bit integers and exponents. NumPy sums the integers of one exponent in parts that are
too small to overflow.
"""

import dataclasses
import math

import numpy as np

# frexp gives x = m · 2^e with 2^53·m whole and e ≥ -1073: x is a multiple of 2^-(1073 + 53).
_SHIFT = 1073 + 53


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Groups:
    """Values grouped by exponent: `whole[i] · 2^(exponent - 53)` is a value of its group."""

    whole: np.ndarray  # int64 [values]
    exponents: list[int]  # [groups]
    starts: np.ndarray  # int64 [groups], positions in `whole`


def scaled_sum(values: np.ndarray) -> int:
    """2^1126 · Σ x over finite `values`, float64 [n], exactly."""
    groups = _by_exponent(values)
    sums = _group_sums(groups.whole, groups.starts)
    return sum(s << (e - 53 + _SHIFT) for s, e in zip(sums, groups.exponents, strict=True))


def scaled_square_sum(values: np.ndarray) -> int:
    """2^2252 · Σ x² over finite `values`, float64 [n], exactly."""
    groups = _by_exponent(np.abs(values))
    high, low = groups.whole >> 26, groups.whole & ((1 << 26) - 1)
    # (h·2^26 + l)² = h²·2^52 + 2hl·2^26 + l²
    parts = (_group_sums(product, groups.starts) for product in (high * high, high * low, low * low))
    squares = [(hh << 52) + (hl << 27) + ll for hh, hl, ll in zip(*parts, strict=True)]
    return sum(s << 2 * (e - 53 + _SHIFT) for s, e in zip(squares, groups.exponents, strict=True))


def mean_and_std(*, count: int, scaled: int, scaled_squares: int) -> tuple[float, float]:
    """Mean and population standard deviation. They become floats at the end: nothing cancels or overflows."""
    mean = scaled / (count << _SHIFT)
    # A root with 64 bits after the point: what is cut off is far below float64's precision.
    root = math.isqrt((count * scaled_squares - scaled * scaled) << 128)
    return mean, root / (count << _SHIFT + 64)


def _by_exponent(values: np.ndarray) -> _Groups:
    mantissa, exponent = np.frexp(values)
    order = np.argsort(exponent, kind="stable")
    exponent = exponent[order]
    starts = np.flatnonzero(np.diff(exponent, prepend=exponent[:1] - 1))
    whole = (mantissa[order] * (1 << 53)).astype(np.int64)
    return _Groups(whole=whole, exponents=exponent[starts].tolist(), starts=starts)


def _group_sums(whole: np.ndarray, starts: np.ndarray) -> list[int]:
    """Exact sum of each group of int64: sums of 32-bit halves cannot overflow below 2^31 values."""
    if not len(whole):
        return []
    high = np.add.reduceat(whole >> 32, starts).tolist()
    low = np.add.reduceat(whole & 0xFFFFFFFF, starts).tolist()
    return [(h << 32) + part for h, part in zip(high, low, strict=True)]
