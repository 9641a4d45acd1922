"""Readers that look at the newest version all the time, while versions come, go and come back."""

import collections
import dataclasses
import json
import pathlib
import random
import subprocess
import sys
import time

from pipeline.base import documents
from pipeline.publishing import versions
from tests.publishing import story

_SECONDS = 120  # after which a reader that says nothing has failed


@dataclasses.dataclass
class Found:
    """Acts by verb, what each reader counted, and what was wrong."""

    acts: collections.Counter
    counts: dict[str, dict[str, int]]
    faults: list[str]


def check(folder: pathlib.Path, *, publishes: int, draw: random.Random) -> Found:
    """Makes the acts of a story, each when the reader that loads has seen what the one before published."""
    exports, directory, verified = folder / "exports", folder / "serving", folder / "verified"
    subprocess.run(
        [sys.executable, "-m", "tests.publishing.exports", str(exports), str(publishes)],
        check=True,
        stderr=subprocess.DEVNULL,
    )
    verified.mkdir()
    readers = {name: _start(folder, name) for name in ("load", "read")}
    made: collections.Counter = collections.Counter()
    for act in story.acts(directory, publishes=publishes, draw=draw):
        story.make(act, directory, exports, verify=lambda staged: _verify(staged, verified))
        made[act.verb] += 1
        _await(readers["load"], folder / "load", versions.newest(directory))
    ended = {name: json.loads(reader.communicate("end\n")[0]) for name, reader in readers.items()}
    return Found(
        acts=made,
        counts={name: said["counts"] for name, said in ended.items()},
        faults=[f"{name}: {fault}" for name, said in ended.items() for fault in said["faults"]],
    )


def _start(folder: pathlib.Path, name: str) -> subprocess.Popen:
    paths = [str(folder / path) for path in ("serving", "verified", name)]
    with (folder / f"{name}.stderr").open("w") as stderr:
        return subprocess.Popen(
            [sys.executable, "-m", "tests.publishing.reader", *paths, name],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=stderr,
            text=True,
        )


def _verify(staged: pathlib.Path, verified: pathlib.Path) -> None:
    """Reads every byte, and leaves word that these files were verified."""
    document = versions.read(staged)
    versions.check_files(staged, document)
    (verified / documents.digest(document["files"])).touch()


def _await(reader: subprocess.Popen, seen: pathlib.Path, version: int | None) -> None:
    """Returns when the reader has loaded the version."""
    deadline = time.monotonic() + _SECONDS
    while not (seen.exists() and str(version) in seen.read_text().split()):
        if reader.poll() is not None or time.monotonic() > deadline:
            sys.exit(f"the reader that loads has not seen version {version}: exit code {reader.poll()}")
        time.sleep(0.002)
