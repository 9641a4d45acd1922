"""What this process has used of the host so far: time, cores, waiting for a core, memory."""

import dataclasses
import os
import pathlib
import resource
import time
from collections.abc import Mapping

TASKS = pathlib.Path("/proc/self/task")
HOST = pathlib.Path("/proc/stat")
MEMORY = pathlib.Path("/proc/self/statm")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Usage:
    """Sums since some start, in seconds."""

    wall_s: float
    cpu_s: float  # of all threads
    queued_s: Mapping[int, float]  # by thread: ready to run while no core was free
    busy_s: float  # of the cores that this process may use, by all processes; 0 if the system does not tell

    def since(self, before: "Usage") -> "Span":
        """What was used between `before` and this."""
        cpu_s = self.cpu_s - before.cpu_s
        queued = sum(max(0.0, s - before.queued_s.get(thread, 0.0)) for thread, s in self.queued_s.items())
        return Span(
            wall_s=max(self.wall_s - before.wall_s, 1e-9),
            cpu_s=cpu_s,
            queued_s=queued,
            others_s=max(0.0, self.busy_s - before.busy_s - cpu_s),
        )


@dataclasses.dataclass(frozen=True, kw_only=True)
class Span:
    """What was used between two moments."""

    wall_s: float
    cpu_s: float
    queued_s: float
    others_s: float  # CPU seconds that other processes took of the same cores

    @property
    def busy_cores(self) -> float:
        return self.cpu_s / self.wall_s

    @property
    def wanted_cores(self) -> float:
        """Mean number of threads that ran or were ready to."""
        return (self.cpu_s + self.queued_s) / self.wall_s

    @property
    def others_cores(self) -> float:
        return self.others_s / self.wall_s


def now() -> Usage:
    """What this process has used since it started, and the host since it booted."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return Usage(
        wall_s=time.perf_counter(),
        cpu_s=used.ru_utime + used.ru_stime,
        queued_s=_queued_seconds(),
        busy_s=_busy_seconds(),
    )


def memory_bytes() -> int:
    """Resident memory of this process; 0 if the system does not tell."""
    try:
        pages = int(MEMORY.read_text().split()[1])
    except OSError:
        return 0
    return pages * resource.getpagesize()


def _queued_seconds() -> dict[int, float]:
    """By thread, from Linux' scheduler statistics: nanoseconds run, nanoseconds ready to run, time slices."""
    queued = {}
    for task in TASKS.glob("*"):
        try:
            queued[int(task.name)] = int((task / "schedstat").read_text().split()[1]) / 1e9
        except (OSError, IndexError):  # the thread has ended, or this kernel keeps no statistics
            continue
    return queued


def _busy_seconds() -> float:
    """Of the cores that this process may use: their lines in /proc/stat, in ticks."""
    names = {f"cpu{core}" for core in os.sched_getaffinity(0)}
    try:
        lines = (line.split() for line in HOST.read_text().splitlines())
        cores_ticks = [[int(word) for word in words[1:9]] for words in lines if words and words[0] in names]
        # All but idle, and waiting for a disk.
        busy = sum(sum(ticks) - ticks[3] - ticks[4] for ticks in cores_ticks)
    except (OSError, ValueError, IndexError):
        return 0.0
    return busy / os.sysconf("SC_CLK_TCK")
