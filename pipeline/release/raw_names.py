"""What each feature is called in the `raw` signature: its own name, or one that TensorFlow can take."""

import itertools
import keyword
import re
from collections.abc import Iterator

from pipeline.data.schema.names import ascii_words
from pipeline.data.schema.schema import Schema

# What TensorFlow takes as the name of a node in a graph.
_NODE = re.compile(r"[A-Za-z0-9.][A-Za-z0-9_.\\/>-]*")


def raw_names(schema: Schema) -> dict[str, str]:
    """The name in `raw` of each input feature, by the feature's name, in declared order.

    A signature's input becomes a node of a graph and a parameter of a Python function. So a name with a space
    or an umlaut, a Python keyword, and two names that differ by case alone are not possible. Such a feature
    gets a name made of its ASCII letters and digits.
    """
    names = [feature.name for feature in schema.inputs]
    found: dict[str, str] = {}
    taken: set[str] = set()
    for name in names:
        if _take(name, taken):
            found[name] = name
    for number, name in enumerate(names, 1):
        if name not in found:
            found[name] = next(given for given in _substitutes(name, number) if _take(given, taken))
    return {name: found[name] for name in names}


def renamed(schema: Schema) -> dict[str, str]:
    """Those of `raw_names` that differ from the feature's own name."""
    return {name: given for name, given in raw_names(schema).items() if given != name}


def _take(name: str, taken: set[str]) -> bool:
    """Takes the name, unless TensorFlow cannot, or has it: False then."""
    parameter = _parameter(name)
    possible = _NODE.fullmatch(name) and not keyword.iskeyword(parameter) and parameter != "self"
    free = bool(possible) and parameter.lower() not in taken
    taken |= {parameter.lower()} if free else set()
    return free


def _parameter(name: str) -> str:
    """The Python parameter that TensorFlow makes of a name."""
    swapped = "".join(character if character.isalnum() else "_" for character in name)
    return swapped if swapped[:1].isalpha() else f"arg_{swapped}"


def _substitutes(name: str, number: int) -> Iterator[str]:
    """Ever more names for the feature of this number."""
    stem = ascii_words(name) or "input"
    yield stem
    for later in itertools.count(number):
        yield f"{stem}_{later}"
