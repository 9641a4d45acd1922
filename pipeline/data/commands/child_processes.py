"""The processes that this one has started, and that these have started in their turn; from Linux's /proc."""

import os
import signal

_PARENT = 1  # field of /proc/<pid>/stat after the command's name


def kill() -> None:
    """Kills all of them: what they write is temporary, and nobody would read their answers.

    They are stopped first, until no more are found: one that runs may just then start another.
    """
    stopped: list[int] = []
    while more := [pid for pid in descendants(os.getpid()) if pid not in stopped]:
        _send(more, signal.SIGSTOP)
        stopped += more
    _send(stopped, signal.SIGKILL)


def _send(pids: list[int], number: signal.Signals) -> None:
    for pid in pids:
        try:  # noqa: SIM105 - contextlib takes long to import
            os.kill(pid, number)
        except (ProcessLookupError, PermissionError):  # it has ended, or is another user's by now
            pass


def descendants(pid: int) -> list[int]:
    """Process ids, parents before their children; those that have ended are left out."""
    parents = {int(name): _parent(name) for name in os.listdir("/proc") if name.isdigit()}  # noqa: PTH208
    found = [pid]
    for one in found:  # which grows
        found += [child for child, parent in parents.items() if parent == one]
    return found[1:]


def _parent(name: str) -> int:
    try:
        with open(f"/proc/{name}/stat", "rb") as file:  # noqa: PTH123 - pathlib takes long to import
            state, parent = file.read().rpartition(b")")[2].split()[: _PARENT + 1]
    except OSError:  # it has ended in the meantime
        return 0
    return 0 if state == b"Z" else int(parent)
