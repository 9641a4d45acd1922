"""Values of the gate's rules, checked one by one; each raises InputError for what cannot be right."""

import math
import numbers
from collections.abc import Sequence

from pipeline.data.errors import InputError
from pipeline.data.nearest import did_you_mean


def choice(name: str, value: object, choices: Sequence[str]) -> None:
    if value not in choices:
        action = did_you_mean(str(value), choices, otherwise="Choose one of them.")
        raise error(name, repr(value), " or ".join(map(repr, choices)), action)


def text(name: str, value: object) -> None:
    if not isinstance(value, str):
        raise error(name, repr(value), "the name of a feature, or nothing")


def names(name: str, value: object) -> tuple[str, ...]:
    """Names of features, as a tuple."""
    if (
        isinstance(value, str)
        or not isinstance(value, Sequence)
        or not all(isinstance(one, str) for one in value)
    ):
        raise error(name, repr(value), "a list of names of features")
    for one in value:
        if list(value).count(one) > 1:
            raise error(name, f"'{one}' twice", "each feature once")
    return tuple(value)


def number(name: str, value: object, *, above: float | None = None, below: float = math.inf) -> None:
    """Of 0 or more, or of more than `above`, and less than `below`."""
    fits = is_number(value) and (value >= 0 if above is None else value > above) and value < below
    if not fits:
        least = "from 0 on" if above is None else f"above {above:g}"
        raise error(
            name, repr(value), f"a number {least}" + (f" and below {below:g}" if below < math.inf else "")
        )


def whole(name: str, value: object, *, least: int) -> None:
    if isinstance(value, bool) or not isinstance(value, numbers.Integral) or value < least:
        raise error(name, repr(value), f"a whole number from {least} on")


def numbers_by_name(name: str, value: object, known: Sequence[str]) -> dict[str, float]:
    """A mapping of known names to finite numbers, as a dict."""
    if not hasattr(value, "items"):
        raise error(name, repr(value), "metrics with a number each")
    for key, one in value.items():
        choice(name, key, known)
        if not (is_number(one) and math.isfinite(one)):
            raise error(f"{name}.{key}", repr(one), "a finite number")
    return {key: float(one) for key, one in value.items()}


def is_number(value: object) -> bool:
    return isinstance(value, numbers.Real) and not isinstance(value, bool)


def error(
    name: str, received: object, expected: str, action: str = "Correct it, or leave it out."
) -> InputError:
    return InputError(f"rule '{name}' of the gate", received=received, expected=expected, action=action)
