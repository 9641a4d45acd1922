"""A run whose dataset changes at a known moment: how it ended, what it kept, and whether it goes on."""

import dataclasses
import itertools
import json
import os
import pathlib
import signal
import sys
from collections.abc import Callable, Sequence
from typing import TextIO

from tests.shared import forked
from tests.signals import started
from tests.soak.runs import contents, newest
from tests.underfoot.config import LOGGED
from tests.underfoot.subjects import Subject

_LINES = 3  # of log points; then the dataset changes
_EXIT_BAD_INPUT = 2


class TooLateError(Exception):
    """The run had ended before the dataset changed."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Ended:
    """How a run ended whose dataset changed."""

    code: int
    lines: tuple[str, ...]  # of stderr
    changed_at: int  # step of the last log point before the change
    logged: int  # step of the last log point
    saved: int  # step of the last checkpoint

    def faults(self, named: str, *, ahead: int = 0) -> list[str]:
        """What is wrong with it.

        Args:
          named: what the line must name.
          ahead: steps whose rows may have been read before the change.
        """
        found = []
        if self.code != _EXIT_BAD_INPUT:
            found.append(f"exit code {self.code}")
        if len(self.lines) != 1 or not self.lines[0].startswith("error: "):
            found.append(f"{len(self.lines)} lines: {' | '.join(self.lines)[:600]}")
        elif named not in self.lines[0]:
            found.append(f"{named} is not named: {self.lines[0]}")
        elif "estore" not in self.lines[0] and "epeat" not in self.lines[0]:
            found.append(f"no next action: {self.lines[0]}")
        # The log point of the interval in which the change came may have been checked before it.
        for what, step in (("a log point", self.logged), ("a checkpoint", self.saved)):
            if step > self.changed_at + LOGGED + ahead:
                found.append(f"{what} of step {step}, changed after step {self.changed_at}")
        return found


def disturbed(
    subject: Subject,
    workdir: pathlib.Path,
    folder: pathlib.Path,
    change: Callable[[], object],
    *flags: str,
    afresh: bool = False,
) -> Ended:
    """Makes the change when a run has told its third log point; raises TooLateError where it was faster.

    The run is stopped meanwhile, so that it is known what it had told and saved before.
    """
    pid, output = _start(subject.arguments(workdir, *flags), folder, afresh=afresh)
    with output:
        points = (line for line in output if line.startswith("step "))
        told = len(list(itertools.islice(points, _LINES)))
        os.kill(pid, signal.SIGSTOP)
        _, status = os.waitpid(pid, os.WUNTRACED)
        if told < _LINES or not os.WIFSTOPPED(status):
            raise TooLateError((folder / "stderr").read_text())
        changed_at = _logged(workdir)
        change()
        os.kill(pid, signal.SIGCONT)
        output.read()  # to its end: what nobody reads would stop the run
    _, status = os.waitpid(pid, 0)
    return Ended(
        code=os.waitstatus_to_exitcode(status),
        lines=tuple(filter(_counts, (folder / "stderr").read_text().splitlines())),
        changed_at=changed_at,
        logged=_logged(workdir),
        saved=newest(workdir),
    )


def finished(subject: Subject, workdir: pathlib.Path, folder: pathlib.Path) -> dict[str, str]:
    """What a run leaves that nobody disturbs any more; raises RuntimeError where it fails."""
    done = started.finish(subject.arguments(workdir), folder)
    if done.code:
        raise RuntimeError(f"exit code {done.code}: {done.stderr[-600:]}")
    return contents(workdir)


def _start(arguments: Sequence[str], folder: pathlib.Path, *, afresh: bool) -> tuple[int, TextIO]:
    """The process id of the command, and its stdout."""
    reads, writes = os.pipe()

    def body() -> None:
        os.dup2(writes, 1)
        os.close(writes)
        os.chdir(started.ROOT)
        if afresh:
            os.execv(sys.executable, started.command(*arguments))
        forked.run_module(arguments)

    pid = forked.start(body, folder)
    os.close(writes)
    return pid, os.fdopen(reads)


def _logged(workdir: pathlib.Path) -> int:
    """The step of the last log point."""
    whole = (workdir / "history.jsonl").read_text().rpartition("\n")[0]
    return json.loads(whole.splitlines()[-1])["step"]


def _counts(line: str) -> bool:
    """A read that fails is told of when it is tried again, before the file is found to be another."""
    return bool(line.strip()) and not line.startswith("warning    a read failed")
