"""`.journal.json`: every version that ever was, and the renames that were decided and may not be done yet.

It is written before anything is renamed, so that whatever is killed is finished by who comes next; and a
number is never given twice, though its version may have been taken back or collected.
"""

import dataclasses
import pathlib
from collections.abc import Iterable, Mapping

from pipeline.base import documents, files
from pipeline.base.errors import InputError
from pipeline.publishing import versions

FORMAT = "penstock.journal/1"
FILE_NAME = ".journal.json"
QUARANTINE = ".quarantine"
UNTOLD = f"it lies in {QUARANTINE}, and the journal does not say why"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Known:
    """A version that was published once."""

    cycle: str  # empty where it is not known any more
    at: str = ""  # when it was published, ISO 8601
    aside: str = ""  # why it was moved to .quarantine; empty: it was not
    aside_at: str = ""
    barred: bool = False  # whether its cycle may never be published again


@dataclasses.dataclass(frozen=True, kw_only=True)
class Move:
    """A rename within the serving directory, from a name to another."""

    source: str
    target: str


@dataclasses.dataclass(frozen=True, kw_only=True)
class Journal:
    """What the file says. `moves` are in the order in which they are made."""

    known: Mapping[int, Known] = dataclasses.field(default_factory=dict)
    moves: tuple[Move, ...] = ()

    @property
    def next_version(self) -> int:
        """Above every version that ever was."""
        return max(self.known, default=0) + 1

    @property
    def barred(self) -> dict[str, str]:
        """The cycles that may never be published again, each with the reason."""
        return {known.cycle: known.aside for known in self.known.values() if known.barred and known.cycle}

    def above(self, version: int) -> list[int]:
        """Higher versions that were published and not taken back, whether or not they are there."""
        return [
            number
            for number, known in self.known.items()
            if number > version and known.cycle and not known.barred
        ]

    def of_cycle(self, cycle: str) -> list[int]:
        """Every version that the cycle ever had, ascending."""
        return sorted(number for number, known in self.known.items() if known.cycle == cycle != "")

    def with_version(self, version: int, *, cycle: str, at: str, staged: str) -> "Journal":
        """With a version that is published by renaming `staged`."""
        known = {**self.known, version: Known(cycle=cycle, at=at)}
        return Journal(known=known, moves=(*self.moves, Move(source=staged, target=str(version))))

    def without(self, gone: Iterable[int], *, reason: str, at: str, barred: bool) -> "Journal":
        """With versions that are moved to .quarantine, those that are not there any more included."""
        known, moves = dict(self.known), list(self.moves)
        for version in gone:
            known[version] = dataclasses.replace(known[version], aside=reason, aside_at=at, barred=barred)
            moves.append(Move(source=str(version), target=f"{QUARANTINE}/{version}"))
        return Journal(known=known, moves=tuple(moves))

    def done(self) -> "Journal":
        return dataclasses.replace(self, moves=())


def load(directory: pathlib.Path) -> Journal:
    """The journal, with the versions that lie in the directory and that it does not name.

    Raises:
      InputError: the file was altered. Nothing is guessed then: a quarantined cycle might be published again.
    """
    path = directory / FILE_NAME
    try:
        journal = _journal(documents.read(path, file_format=FORMAT))
    except FileNotFoundError:
        journal = Journal()
    except documents.UNREADABLE as error:
        raise InputError(
            f"journal {path}",
            received=f"other content than was written ({error!r})",
            expected="the versions that ever were, and the cycles that may not be published again",
            action="Restore it from a copy. Without the file, only what lies in the directory is known.",
        ) from None
    return dataclasses.replace(journal, known={**_found(directory, journal), **_untold(directory, journal)})


def save(directory: pathlib.Path, journal: Journal) -> None:
    """Replaces the file; returns when a power cut would not undo it."""
    document = {
        "format": FORMAT,
        "versions": {str(version): dataclasses.asdict(known) for version, known in journal.known.items()},
        "moves": [dataclasses.asdict(move) for move in journal.moves],
    }
    documents.write(directory / FILE_NAME, document)
    files.synchronise(directory)


def _journal(document: Mapping) -> Journal:
    known = {int(version): Known(**said) for version, said in document["versions"].items()}
    return Journal(known=known, moves=tuple(Move(**move) for move in document["moves"]))


def _found(directory: pathlib.Path, journal: Journal) -> dict[int, Known]:
    """What is known of all versions, those included that lie there and the journal does not name.

    They come with a copy of the directory that lacks the journal, or were put there by hand.
    """
    unknown = [number for number in versions.numbers(directory) if number not in journal.known]
    return {**{number: _known(directory / str(number)) for number in unknown}, **journal.known}


def _untold(directory: pathlib.Path, journal: Journal) -> dict[int, Known]:
    """Versions in .quarantine of which the journal does not say so: there was no room to write it."""
    folder = directory / QUARANTINE
    return {
        number: dataclasses.replace(
            journal.known.get(number) or _known(folder / str(number)), aside=UNTOLD, barred=True
        )
        for number in versions.numbers(folder)
        if number not in journal.known or not journal.known[number].aside
    }


def _known(path: pathlib.Path) -> Known:
    """By the version's own word."""
    try:
        document = versions.read(path)
    except InputError:
        return Known(cycle="")
    return Known(cycle=document["cycle"], at=document["at"])
