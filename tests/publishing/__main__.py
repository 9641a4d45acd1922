"""Holds that no version is ever half published, against `kill -9` and against readers that never stop.

  python -m tests.publishing [--kills=200] [--publishes=50] [--seed=0] [--folder=build/publishing]

kills:   a process publishes, takes back, rolls back and collects. It is killed at random moments, and another
         goes on. After each kill, every version that TensorFlow Serving would find is read byte by byte: none
         may be incomplete, none of a cycle twice, none below one that was there before. Each story must end
         with the bytes of an undisturbed one.
readers: one process reads the newest version in a loop, another also loads each with TensorFlow, while 50
         versions are published, and some taken back, rolled back and collected. None may be incomplete, or
         appear before it was verified.
"""

import pathlib
import random
import shutil
import subprocess
import sys
from collections.abc import Sequence

from absl import app, flags

from tests.publishing import kills, readers

_KILLS = flags.DEFINE_integer("kills", 200, "kill -9; 0: none.", 0)
_PUBLISHES = flags.DEFINE_integer(
    "publishes", 50, "Versions under readers, and of each story; 0: no readers.", 0
)
_SEED = flags.DEFINE_integer("seed", 0, "Of the moments and of the stories.")
_FOLDER = flags.DEFINE_string("folder", "build/publishing", "DIRECTORY: of exports and versions.")


def main(argv: Sequence[str]) -> None:
    del argv
    folder = pathlib.Path(_FOLDER.value).resolve()
    shutil.rmtree(folder, ignore_errors=True)
    commit = subprocess.run(
        ["git", "describe", "--always", "--dirty"], capture_output=True, text=True, check=False
    )
    print(f"commit {commit.stdout.strip()}", flush=True)
    faults = []
    if _KILLS.value:
        faults += _under_kills(folder / "kills")
    if _PUBLISHES.value:
        faults += _under_readers(folder / "readers")
    for fault in faults:
        print(f"FAULT {fault}")
    print(f"{len(faults)} faults")
    sys.exit(bool(faults))


def _under_kills(folder: pathlib.Path) -> list[str]:
    draw = random.Random(_SEED.value)
    found = kills.check(folder, kills=_KILLS.value, publishes=_PUBLISHES.value or 10, draw=draw)
    print(f"{found.kills} kills over {found.stories} stories, {found.leftovers} in the middle of an act")
    if not found.faults:
        print("every version whole after each kill; every story ended as the undisturbed one", flush=True)
    return found.faults


def _under_readers(folder: pathlib.Path) -> list[str]:
    folder.mkdir(parents=True)
    found = readers.check(folder, publishes=_PUBLISHES.value, draw=random.Random(_SEED.value))
    print(", ".join(f"{count} × {verb}" for verb, count in found.acts.items()))
    for name, counts in found.counts.items():
        print(f"reader ({name}): " + ", ".join(f"{count:,} {what}" for what, count in counts.items()))
    return found.faults


if __name__ == "__main__":
    app.run(main)
