"""Holds pipeline.retrain against a month of real data, `kill -9`, and eight callers at once.

  PENSTOCK_DATA=DIR make retraining-check
  python -m tests.retraining --data=DIR --only=kills --kills=20

month:    30 days of taxi trips: one day corrupt, one empty, one in other units, one repeated, one late, one
          with a new category, one relabelled; reconcile five times a day. Each comes to what is expected.
stages:   a process is killed before and behind each stage; the next call goes on.
kills:    `kill -9` at random moments until the story is told, again and again. No version is half there or
          there twice, no cycle lost, and the end must be that of an undisturbed run.
callers:  eight processes reconcile at once: one works, seven exit with 75.
"""

import pathlib
import shutil
import subprocess
import sys
from collections.abc import Sequence

from absl import app, flags

from tests.retraining import callers, kills, month

_DATA = flags.DEFINE_string("data", None, "Folder with chicago_taxi: for the month.")
_ONLY = flags.DEFINE_list("only", ["month", "stages", "kills", "callers"], "Which checks.")
_KILLS = flags.DEFINE_integer("kills", 200, "kill -9 at random moments.", 1)
_DAYS = flags.DEFINE_integer("days", 30, "Of the month.", 1, 30)
_SEED = flags.DEFINE_integer("seed", 0, "Of the moments.")
_FOLDER = flags.DEFINE_string("folder", "build/retraining", "DIRECTORY: everything lands here.")


def main(argv: Sequence[str]) -> None:
    del argv
    folder = pathlib.Path(_FOLDER.value).resolve()
    shutil.rmtree(folder, ignore_errors=True)
    (folder / "warm").mkdir(parents=True)
    commit = subprocess.run(
        ["git", "describe", "--always", "--dirty"], capture_output=True, text=True, check=False
    )
    print(f"commit {commit.stdout.strip()}", flush=True)
    faults = []
    if "month" in _ONLY.value:
        if not _DATA.value:
            raise app.UsageError("--data: the month needs the taxi trips")
        faults += month.run(pathlib.Path(_DATA.value), folder, last=_DAYS.value)
    if {"stages", "kills", "callers"} & {*_ONLY.value}:
        with kills.prepared(folder) as stage:
            if "stages" in _ONLY.value:
                faults += kills.at_every_stage(stage)
            if "kills" in _ONLY.value:
                faults += kills.at_random(stage, kills=_KILLS.value, seed=_SEED.value)
            if "callers" in _ONLY.value:
                faults += callers.at_once(stage)
    print("\n".join(f"FAULT: {fault}" for fault in faults))
    print(f"{len(faults)} faults")
    sys.exit(bool(faults))


if __name__ == "__main__":
    app.run(main)
