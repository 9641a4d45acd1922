"""Spellings and numbers that stand for something else: words that differ in case, and sentinels as -999."""

import collections
import re
from collections.abc import Mapping

_SENTINELS = frozenset(float(sign * digits) for digits in (99, 999, 9999, 99999, 999999) for sign in (1, -1))
_SPELLED = frozenset(f"{number:.{digits}f}" for number in _SENTINELS for digits in range(3))
_TIMES = 2  # a sentinel occurs at least so often
_OTHERS = 3  # different numbers that it is far from


def number_written(thousands: str, decimal: str) -> str:
    """A pattern of numbers whose thousands and decimals are parted so; zeros in front (007) make a code."""
    whole = rf"(?:[1-9][0-9]{{0,2}}(?:{re.escape(thousands)}[0-9]{{3}})+|0|[1-9][0-9]*)"
    return rf"{whole}(?:{re.escape(decimal)}[0-9]+)?"


def case_aliases(counts: Mapping[str, int]) -> dict[str, str]:
    """Rare spelling to the most frequent one that differs from it in case alone; letters alone are codes."""
    groups = collections.defaultdict(list)
    for value in sorted(counts, key=lambda value: (-counts[value], value)):
        if len(value) > 1:
            groups[value.casefold()].append(value)
    return {rare: group[0] for group in groups.values() for rare in group[1:]}


def sentinels(counts: Mapping[str, int]) -> tuple[str, ...]:
    """Those values, all of them numbers, which lie so far from the others that they mean "no value"."""
    found = sorted(_SPELLED & counts.keys())
    if sum(counts[value] for value in found) < _TIMES:
        return ()
    rest = [float(value) for value in counts if value not in found]
    if len(rest) < _OTHERS:
        return ()
    low, high = min(rest), max(rest)
    return tuple(value for value in found if _distance(float(value), low, high) > high - low)


def _distance(number: float, low: float, high: float) -> float:
    return max(low - number, number - high)
