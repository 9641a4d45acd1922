"""Runs a command of this project for another one: it writes to a log, and ends when its parent does."""

import pathlib
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence

from pipeline.base.errors import EXIT_TRY_AGAIN

_MEMBER = "pipeline.training.launch.member"  # module of a process that ends with the one that started it
_SECONDS_BETWEEN_LOOKS = 0.2
_ERROR = "error: "
# Exit codes from here on mean that a command got a signal, or lost a worker, and can continue.
_OF_SIGNALS = 128
_LAST_LINES = 20


def run(
    command: Sequence[str],
    *,
    log: pathlib.Path,
    came: Callable[[], int] = lambda: 0,
    is_enough: Callable[[], bool] = lambda: False,
) -> int:
    """Runs a module to its end; returns the exit code, 0 where all is well, negative for a signal.

    A signal to this process is passed on, so that the child can save what it has. If this process is killed,
    so is the child.

    Args:
      command: the arguments of `python -m`.
      log: file to which its output is appended.
      came: function () → number of the signal that this process was sent, or 0.
      is_enough: function () → whether the child shall save what it has and end. It is called all the time.
    """
    with log.open("ab") as file:
        process = subprocess.Popen(
            [sys.executable, "-m", _MEMBER, *command],
            stdin=subprocess.PIPE,
            stdout=file,
            stderr=subprocess.STDOUT,
            start_new_session=True,  # Ctrl-C reaches it from here, and only once
        )
        try:
            return _ended(process, came=came, is_enough=is_enough)
        finally:
            process.kill()
            process.wait()
            process.stdin.close()


def why_failed(code: int, *, log: pathlib.Path) -> str:
    """The last line of the child, or its exit code."""
    if code < 0:
        return f"an end by {signal.Signals(-code).name}"
    lines = log.read_text(errors="replace").splitlines()
    errors = [line.removeprefix(_ERROR) for line in lines[-_LAST_LINES:] if line.startswith(_ERROR)]
    return errors[-1] if errors else f"exit code {code}, see {log}"


def may_succeed_later(code: int) -> bool:
    """Returns whether the same command may succeed later: it said so, or a signal or a lost worker ended
    it.
    """
    return code == EXIT_TRY_AGAIN or was_killed(code)


def was_killed(code: int) -> bool:
    """Returns whether a signal or a lost worker ended it."""
    return code < 0 or code >= _OF_SIGNALS


def _ended(process: subprocess.Popen, *, came: Callable[[], int], is_enough: Callable[[], bool]) -> int:
    """Waits for the exit code and returns it."""
    sent = 0
    while True:
        try:
            return process.wait(_SECONDS_BETWEEN_LOOKS)
        except subprocess.TimeoutExpired:
            if not sent and (sent := came() or (signal.SIGTERM if is_enough() else 0)):
                process.send_signal(sent)
