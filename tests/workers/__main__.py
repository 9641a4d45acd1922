"""Holds what several workers promise against real ones, on a small table that is made up here.

  python -m tests.workers [--only=weights,elastic,skip,agree,kills] [--folder=build/workers-check]

weights: 1, 2, 3 and 4 workers train on one global batch. All workers of a run must end with the same bits;
         the runs must agree within TOLERANCE, and train on the same examples in each step.
elastic: a run by two workers is killed, goes on with four, gets a SIGTERM, and ends alone: no example may be
         lost or repeated, and the weights must be those of one undisturbed worker within TOLERANCE.
skip:    with float16, a gradient that is not finite in the last of two processes skips the step in both.
agree:   two processes that would go on from other steps are refused, in a line that names the steps.
kills:   `kill -9` of the chief and of another of `--workers=2`, at five moments, and of 3 and 4 at two: all
         must end within 30 s, with one line that names the worker and exit code 137, and no process be left.
"""

import pathlib
import shutil
import subprocess
import sys

from absl import app, flags

from tests.pipeline.training.small_run import write_small_dataset
from tests.shared.preloaded import preload
from tests.workers import agree, elastic, kills, skip

_CHECKS = {
    "weights": elastic.same_weights,
    "elastic": elastic.changed,
    "skip": skip.check,
    "agree": agree.check,
    "kills": kills.check,
}
_ONLY = flags.DEFINE_list("only", list(_CHECKS), "Checks to make.")
_COUNTS = flags.DEFINE_list("counts", ["1", "2", "3", "4"], "Of workers, for weights and kills.")
_FOLDER = flags.DEFINE_string("folder", "build/workers-check", "DIRECTORY: of datasets and runs.")


def main(argv: list[str]) -> None:
    del argv
    preload()
    folder = pathlib.Path(_FOLDER.value).resolve()
    shutil.rmtree(folder, ignore_errors=True)
    dataset = folder / "table" / "1.0.0"
    commit = subprocess.run(
        ["git", "describe", "--always", "--dirty"], capture_output=True, text=True, check=False
    )
    print(f"commit {commit.stdout.strip()}", flush=True)
    # In a fork: a process that forks must not have computed.
    elastic.made(lambda: write_small_dataset(dataset), folder / "made")
    counts = [int(count) for count in _COUNTS.value]
    faults = [fault for name in _ONLY.value for fault in _CHECKS[name](dataset, folder / name, counts=counts)]
    for fault in faults:
        print(f"FAULT {fault}")
    print(f"{len(faults)} faults")
    sys.exit(bool(faults))


if __name__ == "__main__":
    app.run(main)
