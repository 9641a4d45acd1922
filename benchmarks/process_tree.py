"""CPU time and memory of a process and all its descendants, from Linux's /proc."""

import os
import pathlib

_TICKS_A_SECOND = os.sysconf("SC_CLK_TCK")
_USER_TIME, _CHILDREN_SYSTEM_TIME = 11, 14  # fields of /proc/<pid>/stat after the command's name


def cpu_seconds(pid: int) -> float:
    """User and system time of the tree, with that of descendants that have ended and were waited for."""
    return sum(map(_ticks, _tree(pid))) / _TICKS_A_SECOND


def memory_bytes(pid: int) -> int:
    """Proportional set size: a page that n processes share counts 1/n for each of them."""
    return sum(map(_proportional_bytes, _tree(pid)))


def _tree(pid: int) -> list[int]:
    found = [pid]
    for one in found:  # which grows
        for children in pathlib.Path(f"/proc/{one}/task").glob("*/children"):
            found += map(int, _read(children).split())
    return found


def _ticks(pid: int) -> int:
    fields = _read(pathlib.Path(f"/proc/{pid}/stat")).rpartition(")")[2].split()
    return sum(map(int, fields[_USER_TIME : _CHILDREN_SYSTEM_TIME + 1]))


def _proportional_bytes(pid: int) -> int:
    lines = _read(pathlib.Path(f"/proc/{pid}/smaps_rollup")).splitlines()
    return sum(int(line.split()[1]) << 10 for line in lines if line.startswith("Pss:"))


def _read(path: pathlib.Path) -> str:
    try:
        return path.read_text()
    except OSError:  # the process has ended in the meantime
        return ""
