"""Holds publishing to an object store against kills, pauses, rivals and readers, on Cloud Storage's emulator.

  python -m tests.store [--kills=100] [--publishes=50] [--seed=0] [--folder=build/store]

What is asked: google-cloud-storage, and the emulator of requirements/gcp.txt, to which emulator.py adds the
conditions that Cloud Storage documents and the emulator does not know.

requests: a process is killed ahead of each request of a call that publishes, takes back and collects.
kills:    stories are killed at random moments. After each kill, of either kind, all that could be loaded is
          read byte by byte; and who comes next must end with the files of the serving directory, and no more.
pauses:   a writer is stopped ahead of each request, another takes over and finishes, and the first one wakes.
writers:  eight publish the same versions at once.
readers:  one lists and downloads the newest version without end, while 50 are published and some go.
"""

import os
import pathlib
import random
import shutil
import sys
from collections.abc import Sequence

from absl import app, flags

from pipeline.publishing.remote import cloud_storage
from tests.store import emulator, fencing, kills, readers, writer

_KILLS = flags.DEFINE_integer("kills", 100, "kill -9 at random moments.", 1)
_PUBLISHES = flags.DEFINE_integer("publishes", 50, "Versions under the reader.", 1)
_SEED = flags.DEFINE_integer("seed", 0, "Of the moments, the stories and the bytes.")
_FOLDER = flags.DEFINE_string("folder", "build/store", "DIRECTORY: of exports and versions.")


def main(argv: Sequence[str]) -> None:
    del argv
    folder = pathlib.Path(_FOLDER.value).resolve()
    shutil.rmtree(folder, ignore_errors=True)
    draw = random.Random(_SEED.value)
    cloud_storage.check_installed("gs://…")  # and imported ahead of the first fork, which takes it along
    with emulator.running(folder) as url:
        os.environ["STORAGE_EMULATOR_HOST"] = url
        faults = [
            *_writers(folder / "writers", draw),
            *_pauses(folder / "pauses", draw),
            *_requests(folder / "requests", draw),
            *_kills(folder / "kills", draw),
            *_readers(folder / "readers", draw),
        ]
    for fault in faults:
        print(f"FAULT {fault}")
    print(f"{len(faults)} faults")
    sys.exit(bool(faults))


def _writers(folder: pathlib.Path, draw: random.Random) -> list[str]:
    codes, faults = fencing.at_once(folder, writers=8, draw=draw)
    print(f"8 writers at once: {codes[0]} ended with 0, {codes[writer.TRY_AGAIN]} with 75", flush=True)
    return faults


def _requests(folder: pathlib.Path, draw: random.Random) -> list[str]:
    found = kills.at_every_request(folder, draw=draw)
    print(f"kills ahead of each request: {found.kills}, {found.inside} left something half done", flush=True)
    return found.faults


def _pauses(folder: pathlib.Path, draw: random.Random) -> list[str]:
    pauses, gave_up, faults = fencing.paused(folder, draw=draw)
    print(f"woken after a take-over: {pauses}, {gave_up} gave up", flush=True)
    return faults


def _kills(folder: pathlib.Path, draw: random.Random) -> list[str]:
    found = kills.at_random(folder, kills=_KILLS.value, publishes=8, draw=draw)
    print(
        f"random kills: {found.kills} over {found.stories} stories, {found.inside} left something half done",
        flush=True,
    )
    return found.faults


def _readers(folder: pathlib.Path, draw: random.Random) -> list[str]:
    acts, counts, faults = readers.check(folder, publishes=_PUBLISHES.value, draw=draw)
    print("under a reader: " + ", ".join(f"{count} × {verb}" for verb, count in acts.items()))
    print("the reader: " + ", ".join(f"{count:,} {what}" for what, count in counts.items()), flush=True)
    return faults


if __name__ == "__main__":
    app.run(main)
