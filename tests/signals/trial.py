"""One signal to one command at one moment, and what of it is kept."""

import dataclasses
import json
import pathlib
import random
import shutil
import signal

from tests.signals import cases as cases_lib
from tests.signals import disturbance
from tests.signals.cases import Case, Contents

MOMENTS = {"early": (0.0, 0.2), "middle": (0.2, 0.6), "late": (0.6, 1.0)}  # parts of an undisturbed run
_AFRESH = 10  # every tenth command is a new Python, for signals during imports and at the very end
_TRIES = 8


@dataclasses.dataclass(frozen=True, kw_only=True)
class Trial:
    command: str  # name of the case
    signal: str
    moment: str
    number: int  # of the trials of this signal at this moment

    @property
    def afresh(self) -> bool:
        return self.number % _AFRESH == 2


@dataclasses.dataclass(frozen=True, kw_only=True)
class Undisturbed:
    """A command that nobody disturbs: what it gives, and seconds of the processor that it takes."""

    contents: Contents
    cpu_forked: float
    cpu_afresh: float


@dataclasses.dataclass(frozen=True, kw_only=True)
class Outcome:
    """`faults` is empty where nothing went wrong."""

    trial: Trial
    commit: str
    after: float  # seconds of the processor, when the signal was sent
    seconds: float  # from the signal to the end
    ran_again: bool
    faults: tuple[str, ...]

    @property
    def line(self) -> str:
        one = self.trial
        how = "afresh" if one.afresh else "forked"
        again = "ran again" if self.ran_again else ""
        return (
            f"{one.command:<20} {one.signal:<7} {one.moment:<6} {one.number:>2} {how} "
            f"after {self.after:5.2f} s: {self.seconds:4.1f} s {again:<9} {'; '.join(self.faults) or 'ok'}"
        )

    def dumps(self) -> str:
        return json.dumps(dataclasses.asdict(self)) + "\n"


def loads(line: str) -> Outcome:
    document = json.loads(line)
    return Outcome(**{**document, "trial": Trial(**document["trial"]), "faults": tuple(document["faults"])})


def undisturbed(case: Case, folder: pathlib.Path) -> Undisturbed:
    """Runs it twice, as a fork and afresh; raises RuntimeError where the two give something else."""
    shutil.rmtree(folder, ignore_errors=True)
    cpu, contents = [], []
    for afresh in (False, True):
        result = folder / f"result-{afresh:d}" / "result"
        cpu.append(cases_lib.finish(case.writing_to(result), folder, afresh=afresh))
        contents.append(case.identical(result))
    if contents[0] != contents[1]:
        raise RuntimeError(f"{case.arguments[0]} gives something else each time")
    return Undisturbed(contents=contents[0], cpu_forked=cpu[0], cpu_afresh=cpu[1])


def run(
    trial: Trial, case: Case, folder: pathlib.Path, *, whole: Undisturbed, seed: int, commit: str
) -> Outcome:
    """A command that ends before its signal is tried again, with less to wait."""
    draw = random.Random(f"{seed} {trial}")
    low, high = MOMENTS[trial.moment]
    cpu = whole.cpu_afresh if trial.afresh else whole.cpu_forked
    number = signal.Signals[trial.signal]
    for _ in range(_TRIES):
        shutil.rmtree(folder, ignore_errors=True)
        after = draw.uniform(low, high) * cpu
        ended = disturbance.disturbed(case, folder, number, after, afresh=trial.afresh)
        if ended:
            ran_again, faults = _again(case, folder, whole.contents, always=trial.afresh)
            return Outcome(
                trial=trial,
                commit=commit,
                after=round(after, 3),
                seconds=round(ended.seconds, 2),
                ran_again=ran_again,
                faults=(*ended.faults(number), *faults),
            )
        cpu *= 0.9
    faults = (f"ended {_TRIES} times before its signal",)
    return Outcome(trial=trial, commit=commit, after=0, seconds=0, ran_again=False, faults=faults)


def _again(
    case: Case, folder: pathlib.Path, expected: Contents, *, always: bool
) -> tuple[bool, tuple[str, ...]]:
    """Whether the command was run again, and what was wrong with what is there then.

    Where the signal left nothing at all, a new run is the undisturbed one, and need not be made.
    """
    result = folder / "out" / "result"
    is_needed = case.goes_on or not case.has_published(result)
    if is_needed and not always and not any((folder / "out").iterdir()):
        return False, ()
    try:
        if is_needed:
            cases_lib.finish(case.writing_to(result), folder / "again")
        same = case.identical(result) == expected
    except (RuntimeError, OSError) as error:
        return is_needed, (f"the re-run: {error}",)
    return is_needed, () if same else ("the re-run gave something else",)
