"""Reads /proc: the processes of a command, which all run in one session."""

import contextlib
import json
import os
import pathlib
import signal
import time
from collections.abc import Iterator, Sequence

# Fields of /proc/<pid>/stat after the command's name.
_STATE, _PARENT, _SESSION, _TIMES = 0, 1, 3, slice(11, 15)  # times: own and of children that have ended
ANSWERED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)  # by a command of ours, in one line
_TICKS, _PAGE = os.sysconf("SC_CLK_TCK"), os.sysconf("SC_PAGE_SIZE")


def catches(pid: int, numbers: Sequence[int]) -> bool:
    """Whether it has handlers of its own for all these signals."""
    try:
        lines = pathlib.Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:  # it has ended
        return False
    caught = next((int(line.split()[1], 16) for line in lines if line.startswith("SigCgt:")), 0)
    return all(caught & 1 << (number - 1) for number in numbers)


def cpu_seconds(leader: int) -> float:
    """Time of the processor that the session has taken so far; of what was killed, that of before counts."""
    stats = _session(leader, after=leader).values()
    return sum(sum(map(int, fields[_TIMES])) for fields in stats) / _TICKS


def memory_bytes(leader: int) -> int:
    """Resident memory of a session's processes, and of their children in sessions of their own; what several
    map counts for each.
    """
    found, own = 0, set(_alive(leader))
    children = (pid for pid, fields in _all() if int(fields[_PARENT]) in own)
    for pid in own.union(children):
        with contextlib.suppress(OSError):  # it has ended
            found += int(pathlib.Path(f"/proc/{pid}/statm").read_text().split()[1]) * _PAGE
    return found


def worker(launcher: int, number: int) -> int | None:
    """The process of a session that is this worker of a cluster; None where there is none yet."""
    for pid in _alive(launcher):
        try:
            environment = pathlib.Path(f"/proc/{pid}/environ").read_bytes().decode(errors="replace")
        except OSError:  # it has ended
            continue
        found = next((each for each in environment.split("\0") if each.startswith("TF_CONFIG=")), "")
        if found and json.loads(found.partition("=")[2])["task"]["index"] == number:
            return pid
    return None


def beam_workers(leader: int) -> list[int]:
    """The worker processes of a session that Beam has started."""
    found = []
    for pid in _alive(leader):
        with contextlib.suppress(OSError):  # it has ended
            if b"sdk_worker_main" in pathlib.Path(f"/proc/{pid}/cmdline").read_bytes():
                found.append(pid)
    return found


def alive_after_a_second(leader: int) -> list[int]:
    """The processes of a session that still run."""
    for _ in range(10):
        if not (living := _alive(leader)):
            break
        time.sleep(0.1)
    return living


def _alive(leader: int) -> list[int]:
    return [pid for pid, fields in _session(leader).items() if fields[_STATE] != "Z"]


def _session(leader: int, *, after: int = 0) -> dict[int, list[str]]:
    """The fields of /proc/PID/stat of each process of a session whose id is not below `after`."""
    return {pid: fields for pid, fields in _all(after=after) if int(fields[_SESSION]) == leader}


def _all(*, after: int = 0) -> Iterator[tuple[int, list[str]]]:
    pids = (int(path.name) for path in pathlib.Path("/proc").iterdir() if path.name.isdigit())
    found = ((pid, _stat(pid)) for pid in pids if pid >= after)
    return ((pid, fields) for pid, fields in found if fields)


def _stat(pid: int) -> list[str] | None:
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:  # it has ended in the meantime
        return None
