"""What is done to a serving directory: publish, take back, roll back and collect, in a random order."""

import dataclasses
import pathlib
import random
from collections.abc import Callable, Iterator

from pipeline.publishing import publish, versions

KEEP = 3  # versions
_DAY = "2026-11-{:02d}T06:00:00+00:00"
Verify = Callable[[pathlib.Path], None]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Act:
    """One call. It names versions by their numbers: to make it again is to make it once."""

    verb: str  # publish, take_back, rollback or collect
    at: str
    cycle: str = ""
    version: int = 0


def cycle(number: int) -> str:
    return f"cycle-{number:03d}"


def number_of(cycle: str) -> int:
    return int(cycle.removeprefix("cycle-"))


def acts(directory: pathlib.Path, *, publishes: int, draw: random.Random) -> Iterator[Act]:
    """A story; each act has to be made before the next is asked for, which depends on what is there."""
    for number in range(1, publishes + 1):
        at = _DAY.format(number % 28 + 1)
        yield Act(verb="publish", cycle=cycle(number), at=at)
        there = versions.versions(directory)
        if len(there) > 1 and draw.random() < 0.2:
            yield Act(verb="take_back", version=there[-1], at=at)
        there = versions.versions(directory)
        if len(there) > 1 and draw.random() < 0.2:
            yield Act(verb="rollback", version=draw.choice(there[:-1]), at=at)
        if draw.random() < 0.4:
            yield Act(verb="collect", at=at)


def make(act: Act, directory: pathlib.Path, exports: pathlib.Path, verify: Verify | None = None) -> object:
    """Makes the act; `exports` holds an export for each cycle, named like it."""
    match act.verb:
        case "publish":
            card = {"MODEL_CARD.md": f"# {act.cycle}\n".encode()}
            return publish.publish(
                exports / act.cycle, directory, cycle=act.cycle, documents=card, at=act.at, verify=verify
            )
        case "take_back":
            return publish.take_back(directory, act.version, reason="it answers NaN", at=act.at)
        case "rollback":
            return publish.rollback(directory, to=act.version, reason="it sells less", at=act.at)
        case _:
            return publish.collect(directory, keep=KEEP)
