"""Runs commands of this project for a stage: convert, train, export."""

import pathlib
import re
from collections.abc import Sequence

from pipeline.base.cli.signals import Deferred, Interrupted
from pipeline.base.errors import EXIT_BAD_INPUT, FULL_DISK, InputError, TryAgainError, disk_is_full
from pipeline.training.launch import child

# Words of the system for an obstacle, where an error has nothing else after "received".
_OBSTACLE = re.compile(
    r"received (?:[^;']*[:(] ?)?(?:Permission denied|Operation not permitted|Read-only file system"
    r"|Input/output error|Stale file handle|Too many open files)[^;']{0,20};"
)


class RefusedError(InputError):
    """Raised where the command refused its input, and would do so again."""


class KilledError(TryAgainError):
    """Raised where a process of the command was killed; nobody knows whether it would be killed again."""


def run(command: Sequence[str], log: pathlib.Path) -> None:
    """Runs a module with its flags until it ends, in a process that cannot outlive this one.

    Args:
      command: the arguments of `python -m`.
      log: the file for its output.

    Raises:
      RefusedError: the command refused its input; the error says why.
      KilledError: it was killed.
      TryAgainError: it may succeed later.
      InputError: it failed otherwise.
      Interrupted: this process received a signal to stop; the command has ended.
    """
    log.parent.mkdir(parents=True, exist_ok=True)
    with Deferred() as signals:
        code = child.run(command, log=log, came=signals.came)
        if signals.came():
            raise Interrupted(signals.came(), f"{command[0]} has ended; the same command goes on")
    if code:
        raise _error(command[0], code, log)


def _error(module: str, code: int, log: pathlib.Path) -> InputError:
    why = child.why_failed(code, log=log)
    kind, action = (RefusedError if code == EXIT_BAD_INPUT else InputError), f"What it printed is in {log}."
    is_in_the_way = FULL_DISK in why or disk_is_full(OSError(why)) or _OBSTACLE.search(why)
    if child.may_succeed_later(code) or is_in_the_way:
        kind, action = TryAgainError, f"The same command goes on. {action}"
    if child.was_killed(code):
        kind = KilledError
    return kind(module, received=why, expected="a command that ends by itself", action=action)
