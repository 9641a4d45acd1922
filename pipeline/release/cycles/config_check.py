"""A config of retraining has the settings of the shared one, each of its type: a typo is named, not kept."""

import math
import numbers
from collections.abc import Sequence

from ml_collections import ConfigDict

from pipeline.data.errors import InputError
from pipeline.data.nearest import did_you_mean


def check(config: ConfigDict, like: ConfigDict, *, group: str = "") -> None:
    """Compares with `like`, whose values have the types that are meant; an empty group of it holds anything.

    Raises:
      InputError: a setting is missing, is unknown, or has a value of another type.
    """
    for key in config:
        if key not in like:
            meant = did_you_mean(key, list(like), otherwise="Leave it out.")
            raise _error(f"{group}{key}", "a setting that there is not", "one of base.py", meant)
    for key, meant in like.items():
        name = f"{group}{key}"
        if key not in config:
            raise _error(name, "nothing", "a value", "Begin with get_config() of base.py.")
        value = config[key]
        if not isinstance(meant, ConfigDict):
            _check_value(name, value, meant)
        elif not isinstance(value, ConfigDict):
            raise _error(name, repr(value), "a group of settings", "Set what is in it, one by one.")
        elif meant:
            check(value, meant, group=f"{name}.")


def is_number(value: object, kind: object) -> bool:
    """Whether the value is of a type such as `int` or `float | None`; a whole number is a float, too.

    NaN is none: every comparison with it fails, so that as a limit it would limit nothing.
    """
    if isinstance(value, bool):
        return False
    if isinstance(value, kind):
        return value is None or not math.isnan(value)
    return isinstance(value, numbers.Integral) and isinstance(0.0, kind)


def _check_value(name: str, value: object, meant: object) -> None:
    fits, expected = {
        int: (lambda: is_number(value, int), "a whole number"),
        float: (lambda: is_number(value, float) and _is_finite(value), "a finite number"),
        str: (lambda: _is_text(value), "a text"),
        tuple: (lambda: _is_texts(value), 'texts, such as ("one", "two")'),
    }[type(meant)]
    if not fits():
        raise _error(name, repr(value), expected, "Correct it.")


def _is_finite(value: float) -> bool:
    try:
        return math.isfinite(value)
    except OverflowError:  # a whole number beyond all floats
        return False


def _is_text(value: object) -> bool:
    """Whether it is one that can be written to a file and given to a command."""
    return isinstance(value, str) and "\0" not in value and value.encode(errors="ignore").decode() == value


def _is_texts(value: object) -> bool:
    is_list = isinstance(value, Sequence) and not isinstance(value, str)
    return is_list and all(_is_text(one) for one in value)


def _error(name: str, received: str, expected: str, action: str) -> InputError:
    return InputError(f"config.{name}", received=received, expected=expected, action=action)
