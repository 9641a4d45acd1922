"""Predicts a pipeline on another number of cores: no stage is faster than its calls that run at once.

Let u be the CPU time of an example in all stages, and u_i its CPU time in stage i, of which p_i calls run at
once. Then c cores give

  min(c / u, min(c, p_i) / u_i of each stage i)

examples a second: the asymptotic bounds of operational analysis (P. Denning and J. Buzen, "The Operational
Analysis of Queueing Network Models", Computing Surveys 10(3), 1978), as Plumber applies them to tf.data (M.
Kuchnik et al., "Plumber: Diagnosing and Removing Performance Bottlenecks in Machine Learning Data Pipelines",
MLSys 2022). A stage that waits for something other than a core gives what was measured.

Two of these numbers are not known for other numbers of cores than were measured. An example takes more CPU
time where several cores run: they share caches, and threads wake each other across cores. And a declared
number of calls is a bound: on one core, two calls are never seen to run at once. So the rates that are
promised assume the worst, and the rates that are called impossible assume the best.
"""

import dataclasses
import math
import re
from typing import Literal

from pipeline.base import accelerators
from pipeline.base.errors import InputError

_WAITING_CORES = 0.6  # with fewer wanted cores, a stage mostly waits for something
# If reading from the disk takes more than so many times the CPU time of an example, starting the pipeline
# keeps the cores busy.
_STARTING = 10
# Share of the cores that are busy without the disk; if fewer are, reads wait for the disk.
_IDLE_FOR_DISK = 0.5
_ALL_CORES = 0.75  # share of the cores that a stage may use; from there on, it keeps all of them busy

Bound = Literal["cores", "calls", "waiting"]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Assumed:
    """Assumptions about cores beyond those that were measured."""

    cpu_times: float  # CPU time of an example, divided by that on the measured cores
    hand_over_us: float  # extra CPU time for handing over a batch, if only one core was measured
    untried_calls: bool  # whether more calls than measured cores run at once
    stuck_calls: bool  # whether calls that did not run at once, although cores were free, can run at once


# On two cores instead of one, eight pipelines took 0.9 to 1.4 times the CPU time of an example (median 1.13),
# and handing over a batch took 15 to 50 µs more (tests/soak/certificate.py, 2 cores of a virtual AMD EPYC).
EXPECTED = Assumed(cpu_times=1.15, hand_over_us=25.0, untried_calls=True, stuck_calls=False)
LEAST = Assumed(cpu_times=1.45, hand_over_us=60.0, untried_calls=False, stuck_calls=False)
MOST = Assumed(cpu_times=0.9, hand_over_us=0.0, untried_calls=True, stuck_calls=True)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Line:
    """The measurements of one stage by itself, or of all stages together."""

    name: str
    examples_per_s: float
    cpu_us: float  # CPU time of an example
    bytes_per_example: float  # size of an example when it leaves the stage
    wanted_cores: float  # threads that ran or were ready to
    at_once: float | None = None  # the most calls that run at once; None: one for each core
    thread: str = ""  # stages of the same thread run one after the other; empty: a thread of its own

    @property
    def mb_per_s(self) -> float:
        return self.examples_per_s * self.bytes_per_example / 1e6

    @property
    def busy_cores(self) -> float:
        return self.examples_per_s * self.cpu_us / 1e6

    def attainable(self, cores: float) -> float:
        """Examples a second on `cores` cores if each thread that was ready had got a core."""
        ready = min(self.wanted_cores, cores)
        return max(self.examples_per_s, 1e6 * ready / self.cpu_us if self.cpu_us > 0 else 0.0)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Scaling:
    """Extrapolates from `cores`, on which the lines were measured."""

    cores: float
    is_shared: bool  # other processes took cores, so a stage may have been slower for want of a core
    batch: int  # examples that are handed over at once
    stages: tuple[Line, ...]
    together: Line
    uncached: Line | None = None  # all stages together, read from the disk

    def at_once(self, line: Line) -> float:
        """The most calls of a stage that run at once: as declared, or fewer if fewer were seen."""
        declared = math.inf if line.at_once is None else line.at_once
        seen = line.wanted_cores
        is_fewer = not self.is_shared and seen < _ALL_CORES * min(self.cores, declared)
        return seen if is_fewer else declared

    def waits(self, line: Line) -> bool:
        """Returns whether a stage mostly waits for something other than a core."""
        return line is self.uncached or line.wanted_cores < _WAITING_CORES

    def is_capped(self, line: Line) -> bool:
        """Returns whether a stage that is too slow is known to be too slow on any number of cores."""
        return line.at_once is not None or not self.waits(line)

    def bound(self, line: Line) -> Bound:
        """Returns what keeps a stage from being faster."""
        if self.waits(line):
            return "waiting"
        return "calls" if self.at_once(line) <= self.cores else "cores"

    def rate_of(self, line: Line, cores: float, assumed: Assumed = EXPECTED) -> float:
        """The most examples a second that a stage gives."""
        cpu_us = self._us(line, self._cpu_us_of_thread(line), cores, assumed)
        if self.waits(line) or cpu_us <= 0:
            return line.examples_per_s
        rate = 1e6 * min(cores, self._calls(line, assumed)) / cpu_us
        if assumed.stuck_calls or line.at_once is None or not line.at_once <= self.cores < cores:
            return rate
        # The stage had all cores that it may use. If its calls ran one after the other then, they always
        # will.
        had = line.attainable(self.cores) if self.is_shared else line.examples_per_s
        return min(rate, had / assumed.cpu_times)

    def rate(self, cores: float, assumed: Assumed = EXPECTED) -> float:
        """Examples a second that all stages together give, as far as is known.

        The rate is no lower than on the measured number of cores, because a process can be bound to so many.
        """
        if cores > self.cores:
            return max(self._rate(cores, assumed), self._rate(self.cores, assumed))
        return self._rate(cores, assumed)

    def _rate(self, cores: float, assumed: Assumed) -> float:
        cpu_us = self._us(self.together, self._cpu_us, cores, assumed)
        of_cores = 1e6 * cores * self._share_used(cores) / max(cpu_us, 1e-9)
        return min([of_cores, *(self.rate_of(line, cores, assumed) for line in self._limits)])

    def limiting(self, cores: float) -> Line:
        """The slowest stage; among stages that share a thread, the one that takes most of its time."""
        return min(self._limits, key=lambda line: (self.undisturbed(line, cores), -line.cpu_us))

    def stuck(self, examples_per_s: float) -> tuple[Line, ...]:
        """Returns the stages that are too slow on any number of cores."""
        is_given = self.together.examples_per_s >= examples_per_s
        return () if is_given else self._below(examples_per_s, MOST)

    def unsure(self, examples_per_s: float) -> tuple[Line, ...]:
        """Returns the stages that may be too slow on any number of cores, as far as was seen."""
        return self._below(examples_per_s, LEAST)

    def cores_for(self, examples_per_s: float) -> int | None:
        """The smallest number of cores that surely gives this rate; None if no number does."""
        here = next((n for n in range(1, int(self.cores) + 1) if self.rate(n, LEAST) >= examples_per_s), None)
        if here or self.unsure(examples_per_s):
            return here
        more = math.inf  # any number larger than the measured one
        of_all = self._us(self.together, self._cpu_us, more, LEAST) / self._share_used(more)
        alone = (self._us(line, self._cpu_us_of_thread(line), more, LEAST) for line in self._limits)
        return max(int(self.cores) + 1, math.ceil(examples_per_s * max(of_all, *alone) / 1e6))

    def _below(self, examples_per_s: float, assumed: Assumed) -> tuple[Line, ...]:
        return tuple(line for line in self._limits if self.rate_of(line, math.inf, assumed) < examples_per_s)

    def undisturbed(self, line: Line, cores: float) -> float:
        """Returns a stage's speed with the cores to itself, and to the stages that share its thread.

        On the measured number of cores it is no more than its ready threads would have given.
        """
        most = self.rate_of(line, cores)
        return min(most, line.attainable(cores)) if cores == self.cores else most

    def _calls(self, line: Line, assumed: Assumed) -> float:
        """Returns the calls that run at once; no more than the measured cores, unless more are assumed."""
        calls = self.at_once(line)
        return calls if assumed.untried_calls or line.at_once is None else min(calls, max(1.0, self.cores))

    def _us(self, line: Line, cpu_us: float, cores: float, assumed: Assumed) -> float:
        """Returns the time of an example in a stage, or in all stages."""
        if cores < self.cores:  # the sure prediction is no less than what was measured
            return cpu_us if assumed is LEAST else cpu_us / assumed.cpu_times
        if cores == self.cores:
            return cpu_us
        takes_batches = line is self.together or line.thread
        is_new = takes_batches and self.cores < 2 <= cores
        return cpu_us * assumed.cpu_times + (assumed.hand_over_us / self.batch if is_new else 0.0)

    @property
    def _limits(self) -> tuple[Line, ...]:
        """The stages, and reading from the disk where the disk is slow."""
        return (*self.stages, self.uncached) if self.uncached and self.disk_is_slow else self.stages

    @property
    def disk_is_slow(self) -> bool:
        """Returns whether reads from the disk wait for the disk, and not for a core."""
        if self.uncached is None:
            return False
        busy, of_memory = self.uncached.busy_cores, self.together
        is_start = self.uncached.cpu_us > _STARTING * of_memory.cpu_us and busy >= _WAITING_CORES
        return busy < _IDLE_FOR_DISK * of_memory.busy_cores and not is_start

    @property
    def _cpu_us(self) -> float:
        """CPU time of an example, all stages together; the disk may take more than memory."""
        return max(self.together.cpu_us, self.uncached.cpu_us if self.uncached else 0.0)

    def _cpu_us_of_thread(self, line: Line) -> float:
        """CPU time of a stage and the others in its thread; measured by itself, it may take more than all
        stages together.
        """
        shared = (each.cpu_us for each in self.stages if line.thread and each.thread == line.thread)
        return min(max(line.cpu_us, sum(shared)), self._cpu_us)

    def _share_used(self, cores: float) -> float:
        """Returns the share of the cores that the stages kept busy where no stage was the limit; 1 for fewer
        cores.

        If other processes ran too, it is not known, and 1 is assumed.
        """
        if cores < self.cores or self.is_shared:
            return 1.0
        attained = self.together.attainable(self.cores) * self.together.cpu_us / 1e6
        allowed = min([self.cores, *(self._allowed(line) for line in self.stages)])
        return min(1.0, attained / allowed) if attained > 0 else 1.0

    def _allowed(self, line: Line) -> float:
        """The number of cores that all stages together can keep busy, as this stage limits them."""
        return self.rate_of(line, self.cores) * self.together.cpu_us / 1e6


# --- The hosts that feed a slice of TPUs, or any other number of accelerators.
#
# The chips of a host and the vCPUs of its machine type are from Google's pages "TPU v5e", "TPU v6e", "TPU
# v5p", "TPU v4" and "TPU7x" (cloud.google.com/tpu/docs), and "Plan TPUs in GKE" (cloud.google.com/kubernetes-
# engine/docs/concepts/plan-tpus).


@dataclasses.dataclass(frozen=True, kw_only=True)
class Slice:
    name: str
    hosts: int = 1
    replicas: int = 1  # replicas on all hosts
    host_cores: int | None = None  # None: not known


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Generation:
    """A host has `chips` chips and `cores` vCPUs; up to `alone` chips share a host of `alone_cores` vCPUs."""

    chips: int
    cores: int
    alone: int
    alone_cores: int
    cores_a_chip: int = 1  # the number in a slice's name counts these


_GENERATIONS = {
    "v4": _Generation(chips=4, cores=240, alone=4, alone_cores=240, cores_a_chip=2),
    "v5e": _Generation(chips=4, cores=112, alone=8, alone_cores=224),
    "v5p": _Generation(chips=4, cores=208, alone=4, alone_cores=208, cores_a_chip=2),
    "v6e": _Generation(chips=4, cores=180, alone=8, alone_cores=180),
    "tpu7x": _Generation(chips=4, cores=224, alone=4, alone_cores=224, cores_a_chip=2),
}
_SMALL_HOSTS = {"v5e-1": 24, "v6e-1": 44, "v5e-4": 112}  # vCPUs of slices that are a part of a host
_ALIASES = {"v5litepod": "v5e", "v5lite": "v5e", "v6lite": "v6e"}

HERE = Slice(name="this host")


def parse_slices(text: str) -> Slice:
    """Reads `v5e-8`, `v5e:2x4`, or HOSTSxREPLICAS, such as 4x8, with the replicas of a host.

    Without a text, it is one replica, here.

    Raises:
      InputError: it is neither of these.
    """
    if not text:
        return HERE
    if by_hand := re.fullmatch(r"([0-9]{1,9})x([0-9]{1,9})", text):
        hosts, replicas = map(int, by_hand.groups())
        if hosts and replicas:
            return Slice(name=text, hosts=hosts, replicas=hosts * replicas)
    if tpu := re.fullmatch(r"(v\w+)-([0-9]{1,9})", text.lower()):
        name = _ALIASES.get(tpu[1], tpu[1])
        generation = _GENERATIONS.get(name)
        chips, rest = divmod(int(tpu[2]), generation.cores_a_chip) if generation else (0, 0)
        if generation and not rest and (found := hosts_of(name, chips)):
            return found
    name, _, shape = text.lower().partition(":")
    chips = accelerators.chips_of(accelerators.of_target(name), shape) if name in _GENERATIONS else None
    if chips and (found := hosts_of(name, chips)):
        return dataclasses.replace(found, name=text.lower())
    raise InputError(
        "--slice",
        received=repr(text),
        expected="HOSTSxREPLICAS such as 4x8, or whole hosts of a TPU of "
        f"{', '.join(_GENERATIONS)} such as v5e-8 or tpu7x:2x2x1",
        action="Say how many hosts there are, and how many replicas each has.",
    )


def hosts_of(generation: str, chips: int) -> Slice | None:
    """Returns the hosts of a TPU's chips, such as 8 of `v5e`; None where it is not known which they are."""
    known = _GENERATIONS.get(generation)
    if known is None or not _is_made(known, chips):
        return None
    name = f"{generation}-{chips * known.cores_a_chip}"
    is_alone = chips <= known.alone
    return Slice(
        name=name,
        hosts=1 if is_alone else -(-chips // known.chips),
        replicas=chips * accelerators.of_target(generation).devices_a_chip,
        host_cores=_SMALL_HOSTS.get(name, known.alone_cores) if is_alone else known.cores,
    )


def _is_made(generation: _Generation, chips: int) -> bool:
    """Returns whether a slice can have `chips` chips: whole hosts, or chips sold singly."""
    is_single = chips == 1 and generation.cores_a_chip == 1
    return is_single or (chips > 0 and chips % generation.chips == 0)
