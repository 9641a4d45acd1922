"""Starts a command as a fork of this process, which has imported what it needs, or as a new Python."""

import dataclasses
import os
import pathlib
import signal
import sys
import tempfile
from collections.abc import Sequence

from tests.beam_jobs.conftest import ROOT, command
from tests.shared import forked

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_MAY_TAKE = 900.0  # seconds, undisturbed, on a machine that others use too


@dataclasses.dataclass(frozen=True, kw_only=True)
class Finished:
    code: int
    stderr: str
    cpu_seconds: float  # of its own and of its children


def start(arguments: Sequence[str], folder: pathlib.Path, *, afresh: bool) -> int:
    """The process id of `python -m …` in a session of its own.

    Its streams go to `folder`, its temporary files to the folder `temporary` in it.
    """
    (folder / "temporary").mkdir(parents=True, exist_ok=True)

    def body() -> None:
        _as_a_shell_would(folder / "temporary")
        if afresh:
            os.execv(sys.executable, command(*arguments))
        forked.run_module(arguments)

    return forked.start(body, folder)


def finish(arguments: Sequence[str], folder: pathlib.Path, *, afresh: bool = False) -> Finished:
    """How the command ends that nobody disturbs."""
    pid = start(arguments, folder, afresh=afresh)
    if not forked.ends_within(pid, _MAY_TAKE):
        os.killpg(pid, signal.SIGKILL)
    _, status, usage = os.wait4(pid, 0)
    return Finished(
        code=os.waitstatus_to_exitcode(status),
        stderr=(folder / "stderr").read_text(),
        cpu_seconds=usage.ru_utime + usage.ru_stime,
    )


def _as_a_shell_would(temporary: pathlib.Path) -> None:
    os.chdir(ROOT)
    os.environ["TMPDIR"], tempfile.tempdir = str(temporary), None
    # Who runs this in the background, or with nohup, has it ignore some.
    for number in SIGNALS:
        signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)
