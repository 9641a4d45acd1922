"""`kill -9` ahead of every request, and at random moments; who comes next finishes."""

import dataclasses
import itertools
import os
import pathlib
import random
import shutil
import signal
import time
from collections.abc import Sequence

from pipeline.base import files
from pipeline.publishing import publish
from tests.publishing import story
from tests.shared import forked
from tests.store import oracle, writer

AT = "2026-11-01T06:00:00+00:00"


@dataclasses.dataclass
class Found:
    kills: int = 0
    inside: int = 0  # kills that left something uploaded or half a version
    tries: int = 0  # calls that were told to try again
    stories: int = 0
    faults: list[str] = dataclasses.field(default_factory=list)


def serving(folder: pathlib.Path, draw: random.Random) -> tuple[pathlib.Path, pathlib.Path]:
    """A serving directory of two versions; and the same after one was taken back, and two published."""
    before, after = folder / "before", folder / "after"
    for number in (1, 2, 3, 4):
        writer.write_export(folder / f"export-{number}", draw)
    for number in (1, 2):
        publish.publish(folder / f"export-{number}", before, cycle=f"c{number}", at=AT)
    shutil.copytree(before, after)
    publish.take_back(after, 2, reason="NaN", at=AT)
    for number in (3, 4):
        publish.publish(folder / f"export-{number}", after, cycle=f"c{number}", at=AT)
    publish.collect(after, keep=2)
    return before, after


def at_every_request(folder: pathlib.Path, *, draw: random.Random) -> Found:
    """A kill ahead of the first request, of the second, … of a call with a lot to do."""
    before, after = serving(folder, draw)
    found = Found()
    for count in itertools.count():
        oracle.clear()
        prefix = f"every/{count}"
        found.tries += writer.follow_at_last(before, prefix)

        def kill(number: int, count: int = count) -> None:
            if number == count:
                os.kill(os.getpid(), signal.SIGKILL)

        child = forked.start(
            lambda prefix=prefix, kill=kill: writer.follow_or_exit(after, prefix, before=kill),
            folder / "process",
        )
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        _look(found, prefix, f"killed ahead of request {count}")
        if code == 0:
            break
        found.kills += code == -signal.SIGKILL
        found.tries += writer.follow_at_last(after, prefix)
        found.faults += [
            f"after {count} requests and a second call: {name}" for name in oracle.unlike(prefix, after)
        ]
    return found


def at_random(folder: pathlib.Path, *, kills: int, publishes: int, draw: random.Random) -> Found:
    """Stories of publishing, taking back, rolling back and collecting, each act followed by the place."""
    exports = folder / "exports"
    for number in range(1, publishes + 1):
        writer.write_export(exports / story.cycle(number), draw)
    told, started = [], time.monotonic()
    for act in story.acts(folder / "undisturbed", publishes=publishes, draw=draw):
        _make(act, folder / "undisturbed", exports, "random/undisturbed")
        told.append(act)
    seconds = (time.monotonic() - started) / len(told)
    found = Found()
    while found.kills < kills and not found.faults:
        directory, prefix = folder / f"{found.stories}" / "serving", f"random/{found.stories}"
        _tell(told, directory, exports, prefix, kills, seconds, draw, found)
        found.faults += [f"story {found.stories}: {name}" for name in oracle.unlike(prefix, directory)]
        names = [set(oracle.listed(where)) for where in (prefix, "random/undisturbed")]
        if names[0] != names[1]:
            found.faults.append(f"story {found.stories} ends otherwise: {sorted(names[0] ^ names[1])}")
        found.stories += 1
    return found


def _tell(
    told: Sequence[story.Act],
    directory: pathlib.Path,
    exports: pathlib.Path,
    prefix: str,
    kills: int,
    seconds: float,
    draw: random.Random,
    found: Found,
) -> None:
    """One story to its end, with kills on the way."""
    done = directory.parent / "done"

    def go_on() -> None:
        first = int(done.read_text()) if done.exists() else 0
        for number, act in enumerate(told[first:], start=first + 1):
            _make(act, directory, exports, prefix)
            files.write_bytes(done, str(number).encode())

    while not found.faults:
        child = forked.start(go_on, directory.parent / "process")
        if not forked.ends_within(child, draw.uniform(0, 3 * seconds) if found.kills < kills else 600):
            os.kill(child, signal.SIGKILL)
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        _look(found, prefix, f"story {found.stories}")
        if code == 0:
            return
        if code != -signal.SIGKILL:
            found.faults.append(
                f"exit code {code}: {(directory.parent / 'process/stderr').read_text()[-500:]}"
            )
        found.kills += 1


def _make(act: story.Act, directory: pathlib.Path, exports: pathlib.Path, prefix: str) -> None:
    story.make(act, directory, exports)
    writer.follow_at_last(directory, prefix)


def _look(found: Found, prefix: str, when: str) -> None:
    found.faults += [f"{when}: {fault}" for fault in oracle.faults(prefix)]
    names = oracle.listed(prefix)
    loadable = oracle.loadable(names)
    found.inside += any(
        name.startswith(".content") or (name[0].isdigit() and int(name.split("/")[0]) not in loadable)
        for name in names
    )
