"""Values of a config: looked up by dotted keys, checked by rules, and turned into frozen sections."""

import dataclasses
import fnmatch
import functools
import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

from pipeline.base.errors import InputError

Values = Mapping[str, object]  # by key; a section is itself such a mapping
Rule = tuple[Callable[[Any], bool], str]  # says whether a value is valid, and describes valid ones

_Section = TypeVar("_Section")


def value_at(values: Values, key: str) -> object:
    """Returns the value at a dotted key such as `optimizer.name`."""
    return functools.reduce(operator.getitem, key.split("."), values)


def with_values(values: Values, changes: Mapping[str, object]) -> dict[str, object]:
    """Returns the values with others at some dotted keys."""
    changed = dict(values)
    for key, value in changes.items():
        group, _, rest = key.partition(".")
        changed[group] = with_values(changed[group], {rest: value}) if rest else value
    return changed


def leaves(values: Values, prefix: str = "") -> Iterator[tuple[str, object]]:
    """Yields dotted keys and values: ("optimizer.name", "adamw"). Lists and empty sections stay whole."""
    for name, value in values.items():
        if isinstance(value, Mapping) and value:
            yield from leaves(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value


def section(kind: type[_Section], values: Values) -> _Section:
    """Makes a dataclass from the values that it has fields for; lists become tuples."""
    needed = (field.name for field in dataclasses.fields(kind))
    given = {name: values[name] for name in needed if name in values}
    return kind(**{name: tuple(value) if isinstance(value, list) else value for name, value in given.items()})


def broken_rules(values: Values, rules: Mapping[str, Rule]) -> Iterator[tuple[str, object, str]]:
    """Yields the key, the value and what is expected, for each value at a dotted key that breaks its rule."""
    for key, (will_do, expected) in rules.items():
        value = value_at(values, key)
        if not will_do(value):
            yield key, value, expected


def require_matches(patterns: Sequence[str], names: Sequence[str], *, key: str, kind: str) -> None:
    """Raises InputError if a pattern of the config's `key` matches none of the names, each of a `kind`."""
    for pattern in patterns:
        if not any(fnmatch.fnmatchcase(name, pattern) for name in names):
            raise InputError(
                f"--config.{key}",
                received=f"{pattern!r}, which matches no {kind}",
                expected=f"patterns of {', '.join(names)}",
                action="Correct it in the config file or on the command line; * stands for any characters.",
            )
