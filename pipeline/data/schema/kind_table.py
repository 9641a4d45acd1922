"""How one room treats each kind of feature: a table with one entry a kind.

A room that must know a feature's kind keeps one such table and asks for the kind nowhere else, so that a new
kind needs one entry in each table. Standard library only: Beam workers import this file.
"""

import dataclasses
from collections.abc import Mapping
from typing import Generic, TypeVar

from pipeline.data.schema.feature import Feature

Entry = TypeVar("Entry")


class MissingKindError(LookupError):
    """A table has no entry for a kind: the mistake of whoever added the kind, not of the user."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class KindTable(Generic[Entry]):
    """What a room does with a feature, by the feature's class.

    `where` is the module that holds the table, `tells` the question that an entry answers, and `entry` what
    an entry has to be.
    """

    where: str
    tells: str
    entry: str
    entries: Mapping[type[Feature], Entry]

    def of(self, feature: Feature) -> Entry:
        """The entry of the feature's kind; raises MissingKindError where there is none."""
        entry = self.entries.get(type(feature))
        if entry is None:
            raise MissingKindError(self.lacks(type(feature)))
        return entry

    def lacks(self, kind: type[Feature]) -> str:
        """What the table wants for `kind`; empty if it has an entry."""
        if kind in self.entries:
            return ""
        known = ", ".join(known.__name__ for known in self.entries)
        return (
            f"{self.where}, the table of {self.tells}: received {kind.__name__}; expected one of {known}. "
            f"Add an entry for {kind.__name__}: {self.entry}."
        )
