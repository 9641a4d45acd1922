"""What a feature may be called: an identifier, which every tool behind the dataset takes as a name.

Standard library only: Beam workers import this file.
"""

import itertools
import keyword
import re
import unicodedata
from collections.abc import Iterable, Iterator

from pipeline.data.errors import InputError
from pipeline.data.schema.schema import Schema

# The arguments of a SavedModel's signature begin with a letter.
_IDENTIFIER = re.compile(r"[A-Za-z][A-Za-z0-9_]*")
_RESERVED = {*keyword.kwlist, "self"}


def is_identifier(name: str) -> bool:
    """Whether `name` may be the argument of a function, and a node of a TensorFlow graph."""
    return bool(_IDENTIFIER.fullmatch(name)) and name not in _RESERVED


def ascii_words(text: str) -> str:
    """The ASCII letters and digits of `text`, joined by `_`; accents are dropped."""
    plain = unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode()
    return re.sub(r"[^A-Za-z0-9]+", "_", plain).strip("_")


def identifiers(columns: Iterable[str]) -> dict[str, str]:
    """An identifier for each raw column, in the order of the columns: `plan type` → `plan_type`.

    A column whose name is one keeps it; of names that are equal but for their case, the first does. The
    others are numbered.
    """
    columns = list(columns)
    found: dict[str, str] = {}
    taken: set[str] = set()
    by_right = sorted(range(len(columns)), key=lambda number: (not is_identifier(columns[number]), number))
    for number in by_right:
        name = next(name for name in _candidates(columns[number], number + 1) if name.lower() not in taken)
        found[columns[number]] = name
        taken.add(name.lower())
    return {column: found[column] for column in columns}


def check_names(schema: Schema) -> None:
    """Raises InputError if a feature's name is no identifier, before any row is read."""
    names = identifiers(feature.name for feature in schema.features)
    for feature in schema.features:
        if not is_identifier(feature.name):
            raise InputError(
                f"schema feature '{feature.name}', field 'name'",
                received=repr(feature.name),
                expected="an identifier: ASCII letters, digits and '_', a letter first, no word of Python",
                action=f'Write "name": "{names[feature.name]}", "column": "{feature.source_column}".',
            )


def _candidates(column: str, number: int) -> Iterator[str]:
    """Ever more names for the column of this number, the best first."""
    stem = column if is_identifier(column) else _as_identifier(column, number)
    yield stem
    yield from (f"{stem}_{n}" for n in itertools.count(2))


def _as_identifier(column: str, number: int) -> str:
    words = ascii_words(column.replace("ß", "ss"))
    if not words:
        return f"column_{number}"
    words = words if words[0].isalpha() else f"column_{words}"
    return f"{words}_" if words in _RESERVED else words
