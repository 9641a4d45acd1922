"""Kills training at random moments and goes on; the weights must be those of a run that nobody disturbed.

  python -m tests.soak --data=DIR [--kills=60] [--terms=20] [--only=adult_one_device,…] [--folder=build/soak]

`wide_deep` on Adult and a small ResNet on 5,000 images of MNIST, on one device, on two and by two workers. A
third of the signals falls anywhere, a third into the middle of a save, a third just behind an epoch's end.
Every process records the ids of the examples of each step. At the end of a run the last and the best
checkpoint, the metrics and the history must be byte for byte those of the undisturbed run, with no example
lost or repeated. What is compared is computed with dropout, micro-batches and averages of the weights.
"""

import collections
import pathlib
import random
import shutil
import signal
import subprocess
import sys
from collections.abc import Sequence

from absl import app, flags

from tests.shared.preloaded import preload
from tests.soak import made, runs
from tests.soak.disturbed import Disturbed, Hit
from tests.soak.runs import Case

_DATA = flags.DEFINE_string(
    "data", None, "DIRECTORY: with adult and mnist_png. Without: a small table, made up."
)
_KILLS = flags.DEFINE_integer("kills", 60, "kill -9, over all cases.", 0)
_TERMS = flags.DEFINE_integer("terms", 20, "SIGTERM, over all cases.", 0)
_EACH = flags.DEFINE_integer("each", 5, "Signals to one run at most, before it may end.", 1)
_ONLY = flags.DEFINE_list("only", [], "Names of cases; empty: all.")
_FOLDER = flags.DEFINE_string("folder", "build/soak", "DIRECTORY: of datasets and runs.")
_SEED = flags.DEFINE_integer("seed", 0, "Of the moments.")


def main(argv: Sequence[str]) -> None:
    del argv
    preload()
    folder = pathlib.Path(_FOLDER.value).resolve()
    cases = made.real_cases(folder, pathlib.Path(_DATA.value)) if _DATA.value else made.made_up_cases(folder)
    cases = [case for case in cases if not _ONLY.value or case.name in _ONLY.value]
    commit = subprocess.run(
        ["git", "describe", "--always", "--dirty"], capture_output=True, text=True, check=False
    )
    print(f"commit {commit.stdout.strip()}", flush=True)
    faults, hits = 0, []
    for case, numbers in zip(cases, _shares(len(cases)), strict=True):
        if numbers:
            faults += _soak(case, numbers, folder / case.name, hits)
    print(f"{_told(hits)}: {faults} faults")
    sys.exit(bool(faults))


def _told(hits: Sequence[Hit]) -> str:
    """What ended processes, in a line."""
    counts = collections.Counter(hit.number for hit in hits)
    in_save, past = sum(hit.in_save for hit in hits), sum(hit.past_epoch for hit in hits)
    return (
        f"{counts[signal.SIGKILL]} kills, {counts[signal.SIGTERM]} SIGTERMs, "
        f"{in_save} of them in the middle of a save, {past} past the end of an epoch"
    )


def _shares(cases: int) -> list[list[signal.Signals]]:
    """The signals of each case, in random order."""
    draw = random.Random(_SEED.value)
    dealt = [signal.SIGKILL] * _KILLS.value + [signal.SIGTERM] * _TERMS.value
    shares = [dealt[number::cases] for number in range(cases)]
    for share in shares:
        draw.shuffle(share)
    return shares


def _soak(case: Case, numbers: Sequence[signal.Signals], folder: pathlib.Path, hits: list[Hit]) -> int:
    """Sends the signals to runs of the case, and adds those that hit; returns how many things were wrong."""
    shutil.rmtree(folder, ignore_errors=True)
    whole = runs.run(case, folder / "whole", folder / "whole-process")
    if whole.code:
        print(f"{case.name}: nobody disturbed it, and it failed: {whole.stderr[-600:]}")
        return 1
    early = " (ended by a callback)" if len(whole.steps) < case.steps else ""
    print(
        f"{case.name}: undisturbed, {len(whole.steps)} steps{early}, {whole.cpu_seconds:.1f} CPU s",
        flush=True,
    )
    draw, faults, left, run = random.Random(f"{_SEED.value} {case.name}"), 0, list(numbers), 0
    while left:
        run += 1  # one that ended before its signal is no hit, and another takes it
        disturbed = Disturbed(case=case, whole=whole, folder=folder / f"run-{run:02d}", draw=draw)
        disturbed.send(left[: _EACH.value])
        for fault in disturbed.faults():
            faults += 1
            print(f"FAULT {case.name}, {disturbed.folder}: {fault}", flush=True)
        hits += disturbed.hits
        left = left[max(len(disturbed.hits), 1 if disturbed.problems else 0) :]
    return faults


if __name__ == "__main__":
    app.run(main)
