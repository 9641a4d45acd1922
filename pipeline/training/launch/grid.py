"""Parses `--sweep`: keys of the config, the values of each, and a point for every combination."""

import dataclasses
import hashlib
import itertools
import re
from collections.abc import Mapping, Sequence

from pipeline.base.errors import InputError

_EXAMPLE = "--sweep='config.optimizer.learning_rate=1e-3,3e-3;config.seed=0,1,2'"
SEED = "seed"  # the key over whose values means are taken
_MOST_POINTS = 1_000
_LONGEST_NAME = 120  # characters of a directory's name; file systems take 255 bytes
_NOT_IN_NAMES = re.compile(r"[^\w.=,()+-]", re.ASCII)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Point:
    """A combination of values, which one run of a sweep gets in addition to the command line.

    Attributes:
      values: the text after `--config.KEY=`, by key.
      title: the name of the run's directory; empty: it follows from the values.
    """

    values: Mapping[str, str]
    title: str = ""

    @property
    def flags(self) -> tuple[str, ...]:
        return tuple(f"--config.{key}={value}" for key, value in self.values.items())

    @property
    def name(self) -> str:
        """The name of the run's directory, which differs for every point."""
        if self.title:
            return self.title
        text = ",".join(f"{key}={value}" for key, value in self.values.items())
        plain = _NOT_IN_NAMES.sub("_", text)
        if plain == text and len(plain) <= _LONGEST_NAME:
            return plain
        return f"{plain[:_LONGEST_NAME]}-{hashlib.sha256(text.encode()).hexdigest()[:8]}"


def points(text: str) -> tuple[Point, ...]:
    """The combinations, the last key's values changing fastest; raises InputError if the text has another
    form.
    """
    given = values(text)
    keys = tuple(given)
    found = tuple(
        Point(values=dict(zip(keys, each, strict=True)))
        for each in itertools.islice(itertools.product(*given.values()), _MOST_POINTS + 1)
    )
    if len(found) > _MOST_POINTS:
        raise InputError(
            "--sweep",
            received=f"more than {_MOST_POINTS:,} combinations",
            expected=f"at most {_MOST_POINTS:,}: each is a run",
            action="Leave values out, or sweep the keys one after another.",
        )
    return found


def check_given_once(argv: Sequence[str], swept: Point) -> None:
    """Raises InputError where the command line also sets a key that is swept."""
    given = {argument.lstrip("-").partition("=")[0] for argument in argv if argument.startswith("-")}
    for key in swept.values:
        if f"config.{key}" in given:
            raise InputError(
                f"--config.{key}",
                received="a value, and several in --sweep",
                expected="one of the two",
                action="Leave out one of them.",
            )


def values(text: str) -> dict[str, tuple[str, ...]]:
    """The values of each key, as they are written; raises InputError if the text has another form."""
    found: dict[str, tuple[str, ...]] = {}
    for part in filter(None, (part.strip() for part in text.split(";"))):
        name, equals, listed = part.partition("=")
        key = name.strip().removeprefix("--").removeprefix("config.")
        listing = tuple(value.strip() for value in _listed(listed))
        if not equals or not key or "" in listing or key == name.strip():
            raise _no_sweep(part, "config.KEY=VALUE,VALUE,…, such as " + _EXAMPLE)
        if key in found:
            raise _no_sweep(f"config.{key} twice", "each key once", "Name it once.")
        if repeated := next((value for value in listing if listing.count(value) > 1), None):
            raise _no_sweep(f"config.{key}={repeated} twice", "each value once", "Name it once.")
        found[key] = listing
    if not found:
        raise _no_sweep("no key", "config.KEY=VALUE,VALUE,…, such as " + _EXAMPLE)
    return found


def _listed(text: str) -> list[str]:
    """Splits at commas outside brackets: (64,32),((1,2),3) are two values."""
    listing, depth = [""], 0
    for character in text:
        depth += (character in "([") - (character in ")]")
        if character == "," and depth <= 0:
            listing.append("")
        else:
            listing[-1] += character
    return listing


def _no_sweep(
    received: str, expected: str, action: str = "Quote it: the shell reads ; and ( itself."
) -> InputError:
    return InputError("--sweep", received=received, expected=expected, action=action)
