"""A directory that one process holds: another that wants it is told who has it.

The lock is the kernel's, on the directory itself. So nothing is left behind, and what died holds nothing.
"""

import contextlib
import datetime
import fcntl
import os
import pathlib
import re
import socket
from collections.abc import Iterator

from pipeline.data.errors import TryAgainError

_LOCKS = pathlib.Path("/proc/locks")  # a line a lock: `1: FLOCK ADVISORY WRITE PID MAJOR:MINOR:INODE 0 EOF`

_START = 19  # in /proc/PID/stat behind the name: clock ticks from boot to start


@contextlib.contextmanager
def held(directory: pathlib.Path, *, thing: str) -> Iterator[None]:
    """Holds a directory that exists while the block runs.

    Raises:
      TryAgainError: another process holds it; `thing` names the directory in the message.
    """
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        # The process that held it until now may have removed or renamed the directory that we opened.
        if not directory.exists() or directory.stat().st_ino != os.fstat(descriptor).st_ino:
            raise BlockingIOError
    except BlockingIOError:
        holder = _holder(os.fstat(descriptor).st_ino)
        os.close(descriptor)
        raise TryAgainError(
            thing,
            received=f"a directory that {holder} is writing to",
            expected="a directory of its own for each run",
            action="Wait for that run to end, or choose another directory.",
        ) from None
    try:
        yield
    finally:
        os.close(descriptor)


def _holder(inode: int) -> str:
    """Who holds the lock on a file, as far as this machine knows."""
    with contextlib.suppress(OSError, ValueError, IndexError, TypeError):
        for line in _LOCKS.read_text().splitlines():
            _, kind, _, _, pid, file, *_ = line.split()
            if kind == "FLOCK" and int(file.rpartition(":")[2]) == inode and int(pid) > 0:
                return f"process {pid} of host {socket.gethostname()}, running since {_started(pid)},"
    return "another run, of another host or container,"


def _started(pid: str) -> str:
    """When a process was started, to the second."""
    # Behind the name, which may hold anything but ends at the last bracket: see proc(5).
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    booted = re.search(r"^btime (\d+)$", pathlib.Path("/proc/stat").read_text(), re.MULTILINE)
    seconds = int(booted[1]) + int(fields[_START]) / os.sysconf("SC_CLK_TCK")
    return datetime.datetime.fromtimestamp(seconds, datetime.UTC).isoformat(" ", timespec="seconds")
