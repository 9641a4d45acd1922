"""Parses a `--sweep` with ranges: the keys of the config that a search changes, and between which values."""

import dataclasses
import math
import re
from collections.abc import Mapping

from pipeline.base.errors import InputError
from pipeline.base.values import Values, leaves
from pipeline.training.launch import grid

_NUMBER = r"\d+(?:\.\d+)?(?:e[+-]?\d+)?"  # digits stand on both sides of a point, so that `..` is clear
_RANGE = re.compile(rf"(?P<low>[+-]?\.?{_NUMBER})\s*\.\.\s*(?P<high>[+-]?{_NUMBER})", re.IGNORECASE)
_LOG = re.compile(r"log\((?P<inner>.*)\)")
_WHOLE = re.compile(r"[+-]?\d+")
_DIGITS = 4  # digits in which a search chooses a number: no result depends on more
_EXAMPLE = "config.optimizer.learning_rate=log(1e-4..1e-2)"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Range:
    """Numbers from `low` to `high`, both included; if `is_log`, all factors of ten are equally likely."""

    low: float
    high: float
    is_log: bool = False
    is_whole: bool = False

    def text(self, value: float) -> str:
        """The value as it is written after `--config.KEY=`."""
        if self.is_whole:
            return str(int(value))
        # Numbers from .999 to .9999 differ only behind their first digits.
        equal = max(0, math.floor(math.log10(max(abs(self.low), abs(self.high)) / (self.high - self.low))))
        rounded = float(f"{value:.{equal + _DIGITS}g}")
        return repr(min(max(rounded, self.low), self.high))


Space = Mapping[str, Range | tuple[str, ...]]  # by key: numbers, or values to choose from


def has_ranges(text: str) -> bool:
    """Returns whether a value of `--sweep` is a range."""
    return any(_is_range(value) for values in grid.values(text).values() for value in values)


def space(text: str, *, config: Values) -> Space:
    """The keys of `--sweep` with their ranges or values.

    Args:
      config: the config of the run. A range of a key whose value is a whole number has whole numbers only.

    Raises:
      InputError: the text has another form, or a range does not fit its key.
    """
    given = dict(leaves(config))
    return {key: _part(key, values, given.get(key)) for key, values in grid.values(text).items()}


def _is_range(value: str) -> bool:
    logarithmic = _LOG.fullmatch(value)
    return bool(_RANGE.fullmatch(logarithmic["inner"] if logarithmic else value))


def _part(key: str, values: tuple[str, ...], default: object) -> Range | tuple[str, ...]:
    if key == grid.SEED:
        raise _wrong(key, ",".join(values), "settings: a seed is no better than another")
    if not any(map(_is_range, values)):
        return values
    if len(values) > 1:
        raise _wrong(key, ",".join(values), "one range, or values without a range")
    return _range(key, values[0], default)


def _range(key: str, value: str, default: object) -> Range:
    logarithmic = _LOG.fullmatch(value)
    found = _RANGE.fullmatch(logarithmic["inner"] if logarithmic else value)
    is_written_whole = all(_WHOLE.fullmatch(found[name]) for name in ("low", "high"))
    is_whole = is_written_whole and not isinstance(default, float)
    if isinstance(default, bool):
        raise _wrong(key, value, "true and false, by a comma", example=f"config.{key}=true,false")
    if isinstance(default, int) and not is_whole:
        raise _wrong(key, value, "whole numbers", example=f"config.{key}=1..8")
    low, high = float(found["low"]), float(found["high"])
    if not low < high < math.inf or (logarithmic and low <= 0):
        raise _wrong(key, value, "LOW..HIGH, LOW below HIGH, and in log(LOW..HIGH) above 0")
    return Range(low=low, high=high, is_log=bool(logarithmic), is_whole=is_whole)


def _wrong(key: str, received: str, expected: str, *, example: str = _EXAMPLE) -> InputError:
    return InputError(
        f"--sweep, config.{key}",
        received=received,
        expected=expected,
        action=f"Correct it, as in {example}, or leave the key out.",
    )
