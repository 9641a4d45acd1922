"""`.journal.json` holds every version that ever existed, and the renames that are decided but perhaps not
done.

It is written before anything is renamed, so that the next process finishes what a killed one began. It also
makes sure that no number is given twice, even if its version was taken back or collected.
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
UNRECORDED = f"it lies in {QUARANTINE}, and the journal does not say why"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Known:
    """A version that was once published."""

    cycle: str  # empty where it is unknown
    at: str = ""  # the time of publication, ISO 8601
    aside: str = ""  # the reason why it was moved to .quarantine; empty: it was not
    aside_at: str = ""
    barred: bool = False  # whether its cycle may never be published again


@dataclasses.dataclass(frozen=True, kw_only=True)
class Move:
    """A rename within the serving directory."""

    source: str
    target: str


@dataclasses.dataclass(frozen=True, kw_only=True)
class Journal:
    """The content of the file. `moves` are in the order in which they are made."""

    known: Mapping[int, Known] = dataclasses.field(default_factory=dict)
    moves: tuple[Move, ...] = ()

    @property
    def next_version(self) -> int:
        return max(self.known, default=0) + 1

    @property
    def barred(self) -> dict[str, str]:
        """The cycles that may never be published again, with the reasons."""
        return {known.cycle: known.aside for known in self.known.values() if known.barred and known.cycle}

    def above(self, version: int) -> list[int]:
        """Returns higher versions that were published and not taken back, even if they are gone."""
        return [
            number
            for number, known in self.known.items()
            if number > version and known.cycle and not known.barred
        ]

    def of_cycle(self, cycle: str) -> list[int]:
        """Returns every version that the cycle ever had, ascending."""
        return sorted(number for number, known in self.known.items() if known.cycle == cycle != "")

    def with_version(self, version: int, *, cycle: str, at: str, staged: str) -> "Journal":
        """Returns the journal with a version that is published by renaming `staged`."""
        known = {**self.known, version: Known(cycle=cycle, at=at)}
        return Journal(known=known, moves=(*self.moves, Move(source=staged, target=str(version))))

    def without(self, gone: Iterable[int], *, reason: str, at: str, barred: bool) -> "Journal":
        """Returns the journal with versions moved to .quarantine, also those that are gone."""
        known, moves = dict(self.known), list(self.moves)
        for version in gone:
            known[version] = dataclasses.replace(known[version], aside=reason, aside_at=at, barred=barred)
            moves.append(Move(source=str(version), target=f"{QUARANTINE}/{version}"))
        return Journal(known=known, moves=tuple(moves))

    def done(self) -> "Journal":
        return dataclasses.replace(self, moves=())


def load(directory: pathlib.Path) -> Journal:
    """Reads the journal, and adds versions in the directory that it does not name.

    Raises:
      InputError: the file was altered. A guess might publish a quarantined cycle again.
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
            expected="all versions that ever existed, and the cycles that may not be published again",
            action="Restore it from a copy; or delete it: then only what lies in the directory is known.",
        ) from None
    return dataclasses.replace(
        journal, known={**_found(directory, journal), **_unrecorded(directory, journal)}
    )


def save(directory: pathlib.Path, journal: Journal) -> None:
    """Replaces the file; a power cut after the return does not undo it."""
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
    """Returns all known versions, also those in the directory that the journal does not name.

    Such versions come from a copy of the directory without the journal, or were added by hand.
    """
    unknown = [number for number in versions.numbers(directory) if number not in journal.known]
    return {**{number: _known(directory / str(number)) for number in unknown}, **journal.known}


def _unrecorded(directory: pathlib.Path, journal: Journal) -> dict[int, Known]:
    """Returns versions in .quarantine that the journal does not list there: the disk was full."""
    folder = directory / QUARANTINE
    return {
        number: dataclasses.replace(
            journal.known.get(number) or _known(folder / str(number)), aside=UNRECORDED, barred=True
        )
        for number in versions.numbers(folder)
        if number not in journal.known or not journal.known[number].aside
    }


def _known(path: pathlib.Path) -> Known:
    """Reads what the version says about itself."""
    try:
        document = versions.read(path)
    except InputError:
        return Known(cycle="")
    return Known(cycle=document["cycle"], at=document["at"])
