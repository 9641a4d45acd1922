"""Kills a process that publishes, at random moments, and lets another go on, until the story is told."""

import collections
import dataclasses
import json
import os
import pathlib
import random
import signal
import time
from collections.abc import Iterator, Sequence

from pipeline.base import files
from pipeline.base.errors import InputError
from pipeline.publishing import versions
from tests.publishing import story
from tests.publishing.story import Act
from tests.shared import forked, plain_export

_FILES = 12  # of an export
_BYTES = 200_000  # of each


@dataclasses.dataclass
class Found:
    """What the kills met, and what was wrong."""

    kills: int = 0
    stories: int = 0
    leftovers: int = 0  # kills that left something staged, to be collected, or moves to be made
    faults: list[str] = dataclasses.field(default_factory=list)


def check(folder: pathlib.Path, *, kills: int, publishes: int, draw: random.Random) -> Found:
    """Tells one story undisturbed, then again and again under kills, which it must not show."""
    exports = folder / "exports"
    for number in range(1, publishes + 1):
        content = {f"variables/{part}": draw.randbytes(_BYTES) for part in range(_FILES)}
        plain_export.write(exports / story.cycle(number), {"saved_model.pb": b"graph", **content})
    undisturbed = folder / "undisturbed"
    told, started = [], time.monotonic()
    for act in story.acts(undisturbed, publishes=publishes, draw=draw):
        story.make(act, undisturbed, exports)
        told.append(act)
    seconds = (time.monotonic() - started) / len(told)
    print(f"undisturbed: {_counted(told)}, {1000 * seconds:.0f} ms each", flush=True)
    found = Found()
    while found.kills < kills and not found.faults:
        _tell(told, folder / f"story-{found.stories}", exports, seconds, kills, draw, found)
        if state(folder / f"story-{found.stories}" / "serving") != state(undisturbed) and not found.faults:
            found.faults.append(f"story {found.stories} ends otherwise than the undisturbed one")
        found.stories += 1
    return found


def _tell(
    told: Sequence[Act],
    folder: pathlib.Path,
    exports: pathlib.Path,
    seconds: float,
    kills: int,
    draw: random.Random,
    found: Found,
) -> None:
    """One story to its end, with kills on the way."""
    directory, seen = folder / "serving", {}
    while not found.faults:
        child = forked.start(lambda: _go_on(told, directory, exports, folder / "done"), folder / "process")
        ended = forked.ends_within(child, draw.uniform(0, 4 * seconds) if found.kills < kills else 600)
        if not ended:
            os.kill(child, signal.SIGKILL)
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        found.faults += [f"story {found.stories}: {fault}" for fault in faults(directory, seen)]
        if code == 0:
            return
        if code != -signal.SIGKILL:
            found.faults.append(f"exit code {code}: {(folder / 'process' / 'stderr').read_text()[-500:]}")
        found.kills += 1
        found.leftovers += _left(directory)


def _go_on(told: Sequence[Act], directory: pathlib.Path, exports: pathlib.Path, done: pathlib.Path) -> None:
    """Makes the acts from the first on that is not known to be done."""
    first = int(done.read_text()) if done.exists() else 0
    for number, act in enumerate(told[first:], start=first + 1):
        story.make(act, directory, exports)
        files.write_bytes(done, str(number).encode())


def faults(directory: pathlib.Path, seen: dict[int, str]) -> Iterator[str]:
    """What is wrong with what is served; `seen` has the digests of versions served before, and gets these."""
    highest, cycles = max(seen, default=0), collections.Counter()
    for number in versions.numbers(directory):
        try:
            document = versions.check(directory, number)
        except InputError as error:
            yield f"half published: {error}"
            continue
        if number in seen and seen[number] != document["digest"]:
            yield f"version {number} is another than before"
        if number not in seen and number <= highest:
            yield f"version {number} appeared below {highest}"
        seen[number] = document["digest"]
        cycles[document["cycle"]] += "rolled_back" not in document
    yield from (f"{count} versions of {cycle}" for cycle, count in cycles.items() if count > 1)
    if highest and not cycles:
        yield "nothing is served any more"


def _left(directory: pathlib.Path) -> bool:
    """Whether a kill fell between the first and the last step of an act."""
    if not directory.exists():
        return False
    journal = directory / ".journal.json"
    moves = json.loads(journal.read_text())["moves"] if journal.exists() else []
    return bool(moves or any(directory.glob(".staging-*")) or any(directory.glob(".collected-*")))


def state(directory: pathlib.Path) -> dict[str, object]:
    """Every file with its content; of the journal, what it says."""
    files = (path for path in directory.rglob("*") if path.is_file())
    found = {path.relative_to(directory).as_posix(): path.read_bytes() for path in files}
    found.pop(
        ".journal.json.tmp", None
    )  # of a kill while the journal was written; the next write replaces it
    return {**found, ".journal.json": json.loads(found[".journal.json"])}


def _counted(told: Sequence[Act]) -> str:
    counts = collections.Counter(act.verb for act in told)
    return ", ".join(f"{count} × {verb}" for verb, count in counts.items())
