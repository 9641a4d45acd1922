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
CPU_QUOTA = pathlib.Path("/sys/fs/cgroup/cpu.max")

_MIN_IDLE = 0.1  # part of the host: with so much of it idle, nobody waits for a core because of others
_MIN_OTHERS = 0.05  # cores


@dataclasses.dataclass(frozen=True, kw_only=True)
class Usage:
    """Sums since some start, in seconds."""

    wall_s: float
    cpu_s: float  # of all threads
    queued_s: Mapping[int, float]  # by thread: ready to run while no core was free
    host_busy_s: float  # of all cores, by all processes; 0 if the system does not tell
    host_idle_s: float

    def since(self, before: "Usage") -> "Span":
        """What was used between `before` and this."""
        busy, idle = self.host_busy_s - before.host_busy_s, self.host_idle_s - before.host_idle_s
        cpu_s = self.cpu_s - before.cpu_s
        queued = sum(max(0.0, s - before.queued_s.get(thread, 0.0)) for thread, s in self.queued_s.items())
        return Span(
            wall_s=max(self.wall_s - before.wall_s, 1e-9),
            cpu_s=cpu_s,
            queued_s=queued,
            others_s=max(0.0, busy - cpu_s),
            idle_share=idle / (busy + idle) if busy + idle > 0 else 1.0,
        )


@dataclasses.dataclass(frozen=True, kw_only=True)
class Span:
    """What was used between two moments."""

    wall_s: float
    cpu_s: float
    queued_s: float
    others_s: float  # CPU seconds that other processes took of the host
    idle_share: float  # of the host's cores

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

    def slowdown(self, cores: float) -> float:
        """How many times faster the same would have run on `cores` cores with nobody else on the host.

        This is known only if enough threads were ready to keep all cores busy, and got less because others
        ran. Otherwise, for one thread or for what waits for something else, it is 1: never too fast.
        """
        others_ran = self.others_s > _MIN_OTHERS * self.wall_s and self.idle_share < _MIN_IDLE
        if not others_ran or self.wanted_cores < cores or self.cpu_s <= 0:
            return 1.0
        return max(1.0, cores / self.busy_cores)


def now() -> Usage:
    """What this process has used since it started, and the host since it booted."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    busy, idle = _host_seconds()
    return Usage(
        wall_s=time.perf_counter(),
        cpu_s=used.ru_utime + used.ru_stime,
        queued_s=_queued_seconds(),
        host_busy_s=busy,
        host_idle_s=idle,
    )


def cores() -> float:
    """Cores that this process may use: those that it is bound to, within its container's quota."""
    bound = float(len(os.sched_getaffinity(0)))
    try:
        quota, period = CPU_QUOTA.read_text().split()
    except (OSError, ValueError):
        return bound
    return bound if quota == "max" else min(bound, int(quota) / int(period))


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


def _host_seconds() -> tuple[float, float]:
    """(busy, idle) of all cores: the first line of /proc/stat, in ticks."""
    try:
        ticks = [int(word) for word in HOST.read_text().splitlines()[0].split()[1:9]]
    except (OSError, ValueError, IndexError):
        return 0.0, 0.0
    idle = ticks[3] + ticks[4]  # idle, waiting for a disk
    scale = os.sysconf("SC_CLK_TCK")
    return (sum(ticks) - idle) / scale, idle / scale
