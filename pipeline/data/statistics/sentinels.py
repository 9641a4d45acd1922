"""Finds numbers that may stand for "no value": they repeat, and lie far from all others.

Examples are -200 among concentrations, -999.25, 9.96921e+36, and the year 1900 among dates of last year. A
sentinel is the smallest or largest number of its column; there may be several at either end.
"""

import itertools

import numpy as np

_MOST = 3  # sentinels at either end, at most
_TIMES = 2  # each sentinel occurs at least this often
_OTHERS = 3  # different numbers that a sentinel is far from
# With few other numbers the factor is larger. Else powers of ten would be sentinels: 1,000 is ten times as
# far from 100 as the widest step between 1, 10 and 100.
_STEPS_OF_FEW, _STEPS = 10, 5  # the least distance, in widest steps between others
_MANY_OTHERS = 10  # with so many others or more, the usual step is that of the half nearer to the sentinels
_SPREADS = 0.5  # the least distance, in interquartile ranges of the others


def are_sentinels(numbers: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """Returns which of `numbers`, float64 [n], ascending, are sentinels: bool [n]. They occur `counts` [n]
    times.
    """
    n, found = len(numbers), np.zeros(len(numbers), bool)
    low, high = _repeated(counts), _repeated(counts[::-1])
    ends = sorted(itertools.product(range(low + 1), range(high + 1)), key=sum, reverse=True)
    for below, above in ends:
        if below + above and below + above + _OTHERS <= n and _are_far(numbers, counts, below, n - above):
            found[:below] = found[n - above :] = True
            break
    return found


def _repeated(counts: np.ndarray) -> int:
    """Returns how many numbers at the start occur often enough, at most `_MOST`."""
    return int(np.cumprod(counts[:_MOST] >= _TIMES).sum())


def _are_far(numbers: np.ndarray, counts: np.ndarray, start: int, stop: int) -> bool:
    """Returns whether all numbers outside `start` to `stop` are far from those inside."""
    others, weights = numbers[start:stop], counts[start:stop]
    with np.errstate(over="ignore", invalid="ignore"):
        is_low = not start or _is_far(others[0] - numbers[start - 1], others, weights)
        is_high = stop == len(numbers) or _is_far(numbers[stop] - others[-1], -others[::-1], weights[::-1])
    return (is_low or _are_codes(numbers, counts, start, stop)) and is_high


def _is_far(distance: float, others: np.ndarray, counts: np.ndarray) -> bool:
    """Returns whether the distance to the first of the ascending `others` is larger than the steps between
    them.
    """
    steps = np.diff(others)
    if distance > others[-1] - others[0] and distance > _STEPS_OF_FEW * steps.max():
        return True
    if len(others) < _MANY_OTHERS:
        return False
    share = np.cumsum(counts) / counts.sum()
    quarter, middle, three = (others[np.searchsorted(share, part)] for part in (0.25, 0.5, 0.75))
    near = steps[: max(_MANY_OTHERS // 2, np.searchsorted(others, middle))]
    return bool(distance >= _SPREADS * (three - quarter) and distance >= _STEPS * near.max())


def _are_codes(numbers: np.ndarray, counts: np.ndarray, start: int, stop: int) -> bool:
    """Returns whether the low numbers are codes: -1 … -9, each frequent, below numbers that are never
    negative.
    """
    codes, usual = numbers[:start], np.median(counts[start:stop])
    are_digits = (codes >= -9).all() and (codes < 0).all() and (codes == np.floor(codes)).all()
    is_amount = numbers[start] >= 0 and stop - start >= _MANY_OTHERS
    return bool(are_digits and is_amount and (counts[:start] >= max(_TIMES, 2 * usual)).all())
