"""What a pipeline gives on another number of cores: no stage is faster than its calls that run at once.

With u the CPU time of an example in all stages, and u_i of stage i, of which p_i calls run at once, c cores
give

  min(c / u, min(c, p_i) / u_i of each stage i)

examples a second: the asymptotic bounds of operational analysis (P. Denning and J. Buzen, "The Operational
Analysis of Queueing Network Models", Computing Surveys 10(3), 1978), as Plumber applies them to tf.data
(M. Kuchnik et al., "Plumber: Diagnosing and Removing Performance Bottlenecks in Machine Learning Data
Pipelines", MLSys 2022). A stage that waits for something else than a core gives what was measured.
"""

import dataclasses
import math
from typing import Literal

_WAITING_CORES = 0.6  # below, a stage mostly waits for something
_WAITING_CORES_BESIDE = 0.15  # the same beside other processes, which keep threads from getting ready, too
_IDLE_FOR_DISK = 0.5  # of the cores that are busy without it; below, reads from the disk wait for it
_ALL_CORES = 0.75  # of those that a stage may use; from there on, it keeps all of them busy

Bound = Literal["cores", "calls", "waiting"]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Line:
    """What was measured of a stage alone, or of all together."""

    name: str
    examples_per_s: float
    cpu_us: float  # for an example
    bytes_per_example: float  # as it leaves the stage
    wanted_cores: float  # threads that ran or were ready to
    at_once: float | None = None  # calls of it that run at once at most; None: as many as there are cores
    thread: str = ""  # stages of the same one run one after the other; empty: it shares none

    @property
    def mb_per_s(self) -> float:
        return self.examples_per_s * self.bytes_per_example / 1e6

    @property
    def busy_cores(self) -> float:
        return self.examples_per_s * self.cpu_us / 1e6

    def attainable(self, cores: float) -> float:
        """Examples a second on so many cores if each thread that was ready had got one."""
        ready = min(self.wanted_cores, cores)
        return max(self.examples_per_s, 1e6 * ready / self.cpu_us if self.cpu_us > 0 else 0.0)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Scaling:
    """Extrapolates from `cores`, on which the lines were measured."""

    cores: float
    is_shared: bool  # other processes took cores: too few threads look as if they had been kept waiting
    stages: tuple[Line, ...]
    together: Line
    cold: Line | None = None  # together, read from the disk

    def at_once(self, line: Line) -> float:
        """Calls of a stage that run at once at most: as declared, or fewer where fewer were seen."""
        declared = math.inf if line.at_once is None else line.at_once
        seen = line.wanted_cores
        is_fewer = not self.is_shared and seen < _ALL_CORES * min(self.cores, declared)
        return seen if is_fewer else declared

    def waits(self, line: Line) -> bool:
        """Whether a stage mostly waits for something else than a core."""
        is_disk = line is self.cold
        return is_disk or line.wanted_cores < (_WAITING_CORES_BESIDE if self.is_shared else _WAITING_CORES)

    def is_capped(self, line: Line) -> bool:
        """Whether it is known that a stage which is too slow would be so on any number of cores."""
        return line.at_once is not None or not self.waits(line)

    def bound(self, line: Line) -> Bound:
        """What keeps a stage from being faster."""
        if self.waits(line):
            return "waiting"
        return "calls" if self.at_once(line) <= self.cores else "cores"

    def rate_of(self, line: Line, cores: float) -> float:
        """Examples a second that a stage gives at most."""
        cpu_us = self._cpu_us_of_thread(line)
        if self.waits(line) or cpu_us <= 0:
            return line.examples_per_s
        return 1e6 * min(cores, self.at_once(line)) / cpu_us

    def rate(self, cores: float) -> float:
        """Examples a second that all stages together are expected to give."""
        of_cores = 1e6 * cores * self._share_used(cores) / max(self._cpu_us, 1e-9)
        return min([of_cores, *(self.rate_of(line, cores) for line in self._limits)])

    def limiting(self, cores: float) -> Line:
        """The slowest stage; of those that share a thread, the one that takes most of it."""
        return min(self._limits, key=lambda line: (self.rate_of(line, cores), -line.cpu_us))

    def stuck(self, examples_per_s: float) -> tuple[Line, ...]:
        """What is too slow on any number of cores."""
        return tuple(line for line in self._limits if self.rate_of(line, math.inf) < examples_per_s)

    def cores_for(self, examples_per_s: float) -> int | None:
        """The smallest number of cores that gives so much; None: none does, or it is not known."""
        if self.stuck(examples_per_s):
            return None
        busiest = max(self._cpu_us / self._share_used(math.inf), *map(self._cpu_us_of_thread, self._limits))
        return max(1, math.ceil(examples_per_s * busiest / 1e6))

    @property
    def _limits(self) -> tuple[Line, ...]:
        """The stages; and reading from the disk, where it is that which is slow."""
        return (*self.stages, self.cold) if self.cold and self.disk_is_slow else self.stages

    @property
    def disk_is_slow(self) -> bool:
        """Whether reads from the disk wait for it, and not for a core."""
        if self.cold is None:
            return False
        return self.cold.busy_cores < _IDLE_FOR_DISK * self.together.busy_cores

    @property
    def _cpu_us(self) -> float:
        """Of an example, all stages together; reading from the disk may take more than from memory."""
        return max(self.together.cpu_us, self.cold.cpu_us if self.cold else 0.0)

    def _cpu_us_of_thread(self, line: Line) -> float:
        shared = (each.cpu_us for each in self.stages if line.thread and each.thread == line.thread)
        return max(line.cpu_us, sum(shared))

    def _share_used(self, cores: float) -> float:
        """Of the cores, what the stages together kept busy where no stage was the limit; of fewer, all.

        Beside other processes it is not known, and taken for all of them.
        """
        if cores < self.cores or self.is_shared:
            return 1.0
        attained = self.together.attainable(self.cores) * self.together.cpu_us / 1e6
        allowed = min([self.cores, *(self._allowed(line) for line in self.stages)])
        return min(1.0, attained / allowed) if attained > 0 else 1.0

    def _allowed(self, line: Line) -> float:
        """Cores that the stages together can keep busy, because of this one."""
        return self.rate_of(line, self.cores) * self.together.cpu_us / 1e6
