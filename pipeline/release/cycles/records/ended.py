"""Cycles that were begun, and how each ended: read from their receipts."""

import dataclasses
import pathlib
from collections.abc import Mapping

from pipeline.release.cycles.records import receipts
from pipeline.release.cycles.records.root import Root

PLAN, ENDED, FAILED = "plan.json", "ended.json", "failed.json"

PROMOTE, REJECT, UNDECIDED = "PROMOTE", "REJECT", "UNDECIDED"
TAKEN_BACK, SUPERSEDED = "TAKEN_BACK", "SUPERSEDED"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Begun:
    """A cycle: its plan, and its end or failure where it has one."""

    id: str
    folder: pathlib.Path
    plan: Mapping
    end: Mapping | None
    failure: Mapping | None

    @property
    def has_judged(self) -> bool:
        """Whether it came to a decision."""
        return bool(self.end) and self.end["decision"] != SUPERSEDED

    @property
    def spans(self) -> set[tuple[str, str]]:
        """Name and fingerprint of each span it is about."""
        return {(span["name"], span["fingerprint"]) for span in self.plan["spans"]}

    @property
    def decision(self) -> str:
        """How it ended, for people."""
        return self.end["decision"] if self.end else "FAILED" if self.failure else "unfinished"


def cycles(root: Root) -> list[Begun]:
    """Every cycle that was begun, the oldest first. Raises InputError for a damaged receipt."""
    folders = [path for path in root.cycles.iterdir() if path.is_dir()] if root.cycles.is_dir() else []
    found = [begun for folder in folders if (begun := read(folder))]
    return sorted(found, key=lambda each: (each.plan["at"], each.id))


def read(folder: pathlib.Path) -> Begun | None:
    """The cycle in a folder; None where it was never begun."""
    plan = receipts.read(folder / PLAN)
    if plan is None:
        return None
    return Begun(
        id=folder.name,
        folder=folder,
        plan=plan,
        end=receipts.read(folder / ENDED),
        failure=receipts.read(folder / FAILED),
    )
