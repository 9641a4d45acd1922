"""Sends SIGINT, SIGTERM and SIGHUP to commands early, in the middle and late, and runs each command again.

  python -m tests.signals [--count=20] [--commands=convert,train] [--data=DIR] [--seed=0]

Each command that is sent a signal has to end within 10 s, in one line and with the exit code of the signal.
It has to leave no process, no temporary file and nothing that looks half done. The same command again has to
give what an undisturbed one gives. A command that ends before its signal is tried again, with less to wait.
A signal takes about 10 s of one free core.
"""

import collections
import dataclasses
import pathlib
import random
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Sequence

from absl import app, flags

from tests.signals import cases as cases_lib
from tests.signals import disturbance
from tests.signals.cases import Case, Contents

_COUNT = flags.DEFINE_integer("count", 20, "Signals of each kind at each moment, for each command.", 1)
_COMMANDS = flags.DEFINE_list("commands", [], "A,B,…: only these commands.")
_DATA = flags.DEFINE_string("data", None, "DIRECTORY: keeps the raw data and the model for the next time.")
_SEED = flags.DEFINE_integer("seed", 0, "Of the moments.")

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_MOMENTS = {"early": (0.0, 0.2), "middle": (0.2, 0.6), "late": (0.6, 1.0)}  # parts of an undisturbed run
_TRIES = 8


@dataclasses.dataclass(frozen=True, kw_only=True)
class Trial:
    """One command, one signal, one moment."""

    name: str
    case: Case
    number: signal.Signals
    moment: str
    undisturbed: Contents
    seconds: float  # of the undisturbed run

    def faults(self, folder: pathlib.Path, draw: random.Random) -> list[str]:
        """What went wrong; empty where nothing did, and where the command was too fast for the signal."""
        low, high = _MOMENTS[self.moment]
        seconds = self.seconds
        for _ in range(_TRIES):
            shutil.rmtree(folder, ignore_errors=True)
            after = draw.uniform(low, high) * seconds
            ended = disturbance.disturbed(self.case, folder, self.number, after)
            if isinstance(ended, disturbance.Ended):
                return self._told(after, ended.seconds, [*ended.faults(self.number), *self._again(folder)])
            seconds = min(seconds, ended)
        return self._told(0.0, 0.0, [f"ended {_TRIES} times before its signal"])

    def _again(self, folder: pathlib.Path) -> list[str]:
        try:
            same = cases_lib.rerun(self.case, folder / "out" / "result") == self.undisturbed
        except RuntimeError as error:
            return [str(error)]
        return [] if same else ["the re-run gave something else"]

    def _told(self, after: float, took: float, faults: list[str]) -> list[str]:
        what = f"{self.name:<20} {self.number.name:<7} {self.moment:<6}"
        print(f"{what} after {after:5.1f} s: {took:4.1f} s {'; '.join(faults) or 'ok'}", flush=True)
        return faults


def main(argv: Sequence[str]) -> None:
    del argv
    draw = random.Random(_SEED.value)
    made = pathlib.Path(_DATA.value or tempfile.mkdtemp(prefix="penstock-signals-"))
    if not (made / "model").exists():
        cases_lib.prepare(made)
    work = pathlib.Path(tempfile.mkdtemp(dir=made))
    trials, failed = collections.Counter(), collections.Counter()
    for name, case in cases_lib.cases(made).items():
        if _COMMANDS.value and name not in _COMMANDS.value:
            continue
        for trial in _trials(name, case, work / name):
            trials[name] += 1
            failed[name] += bool(trial.faults(work / "disturbed", draw))
    shutil.rmtree(work if _DATA.value else made)
    print("\n".join(f"{name:<20} {failed[name]:>3} of {count:>3} failed" for name, count in trials.items()))
    sys.exit(bool(failed.total()))


def _trials(name: str, case: Case, folder: pathlib.Path) -> list[Trial]:
    folder.mkdir()
    started = time.monotonic()
    undisturbed = cases_lib.rerun(case, folder / "result")
    seconds = time.monotonic() - started
    return [
        Trial(name=name, case=case, number=number, moment=moment, undisturbed=undisturbed, seconds=seconds)
        for _ in range(_COUNT.value)
        for number in _SIGNALS
        for moment in _MOMENTS
    ]


if __name__ == "__main__":
    app.run(main)
