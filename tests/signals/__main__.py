"""Sends SIGINT, SIGTERM and SIGHUP to commands early, in the middle and late, and runs each command again.

  python -m tests.signals [--count=20] [--commands=convert,train] [--folder=build/signals] [--seed=0]

Each command that is sent a signal has to end within 10 s, in one line and with the exit code of the signal.
It has to leave no process, no temporary file and nothing that looks half done. The same command again has to
give what an undisturbed one gives. Nine of ten commands are forks of this process, which has imported
TensorFlow and Beam: a signal then takes 1 to 5 s of one free core; each tenth is a new Python. Moments are
parts of the time of the processor.

Every outcome is kept in the folder. The same command line goes on where it was ended, and tries again what
failed at an earlier commit.
"""

import collections
import dataclasses
import json
import pathlib
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence

from absl import app, flags

from tests.shared.preloaded import preload
from tests.signals import cases as cases_lib
from tests.signals import started, trial
from tests.signals.cases import Case
from tests.signals.trial import Outcome, Trial, Undisturbed

_COUNT = flags.DEFINE_integer("count", 20, "Signals of each kind at each moment, for each command.", 1)
_COMMANDS = flags.DEFINE_list("commands", [], "A,B,…: only these commands.")
_FOLDER = flags.DEFINE_string("folder", "build/signals", "DIRECTORY: of the raw data, and of the outcomes.")
_SEED = flags.DEFINE_integer("seed", 0, "Of the moments.")


def main(argv: Sequence[str]) -> None:
    del argv
    preload()
    folder = pathlib.Path(_FOLDER.value).resolve()
    folder.mkdir(parents=True, exist_ok=True)
    if not (folder / "model").exists():
        cases_lib.prepare(folder)
    cases = cases_lib.cases(folder)
    names = _COMMANDS.value or list(cases)
    outcomes = _outcomes(folder / f"outcomes-{_SEED.value}.jsonl", {name: cases[name] for name in names})
    print(_table(outcomes))
    sys.exit(any(outcome.faults for outcome in outcomes))


def _outcomes(path: pathlib.Path, cases: Mapping[str, Case]) -> list[Outcome]:
    """Those that `path` holds and, appended to it as they come, those that it lacks."""
    commit = subprocess.run(
        ["git", "describe", "--always", "--dirty"], capture_output=True, text=True, check=False
    ).stdout.strip()
    kept = {} if not path.exists() else {one.trial: one for one in map(trial.loads, path.open())}
    whole: dict[str, Undisturbed] = {}
    for each in _trials(cases):
        if each in kept and (not kept[each].faults or kept[each].commit == commit):
            continue
        case = cases[each.command]
        if each.command not in whole:
            whole[each.command] = _undisturbed(each.command, case, path.parent, commit)
        work = path.parent / f"disturbed-{each.command}"
        kept[each] = trial.run(each, case, work, whole=whole[each.command], seed=_SEED.value, commit=commit)
        with path.open("a") as file:
            file.write(kept[each].dumps())
        print(kept[each].line, flush=True)
    return [kept[each] for each in _trials(cases)]


def _trials(cases: Mapping[str, Case]) -> Iterator[Trial]:
    """One of each kind after the other, so that a run that is ended has tried all kinds as often."""
    for number in range(_COUNT.value):
        for name in cases:
            for sent in started.SIGNALS:
                for moment in trial.MOMENTS:
                    yield Trial(command=name, signal=sent.name, moment=moment, number=number)


def _undisturbed(name: str, case: Case, folder: pathlib.Path, commit: str) -> Undisturbed:
    """Kept for the commit, since another one may give something else."""
    path = folder / f"undisturbed-{name}-{commit}.json"
    if not path.exists():
        path.write_text(json.dumps(dataclasses.asdict(trial.undisturbed(case, folder / f"whole-{name}"))))
    return Undisturbed(**json.loads(path.read_text()))


def _table(outcomes: Sequence[Outcome]) -> str:
    """A line a command."""
    counts = collections.defaultdict(collections.Counter)
    for one in outcomes:
        counts[one.trial.command].update(
            signals=1, failed=bool(one.faults), afresh=one.trial.afresh, again=one.ran_again
        )
    slowest = max(outcome.seconds for outcome in outcomes)
    lines = [
        f"{name:<20} {count['signals']:>4} signals, {count['failed']:>3} failed; "
        f"{count['afresh']:>3} started afresh, {count['again']:>3} run again"
        for name, count in counts.items()
    ]
    commits = ", ".join(sorted({outcome.commit for outcome in outcomes}))
    return "\n".join([*lines, f"at most {slowest} s from the signal to the end; commits {commits}"])


if __name__ == "__main__":
    app.run(main)
