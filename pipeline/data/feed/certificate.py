"""The feed certificate: what an input pipeline gives on this host, what training needs, what the limit is."""

import dataclasses
import math
from typing import Literal

from pipeline.data.feed.slices import Slice

MARGIN = 1.1  # times what is needed, because storage and neighbours vary

_WAITING_CORES = 0.6  # below, a stage mostly waits for something
_ALL_CORES = 0.75  # of the host's; from there on, a stage keeps all of them busy
_SHARED_CORES = 0.25  # taken by other processes; from there on, they disturb the measurement

Bound = Literal["cores", "threads", "waiting"]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Line:
    """What was measured of a stage alone, or of all together."""

    name: str
    examples_per_s: float
    cpu_us: float  # for an example
    bytes_per_example: float  # as it leaves the stage
    wanted_cores: float  # threads that ran or were ready to

    @property
    def mb_per_s(self) -> float:
        return self.examples_per_s * self.bytes_per_example / 1e6


@dataclasses.dataclass(frozen=True, kw_only=True)
class Host:
    cores: float
    others_cores: float  # taken by other processes while this was measured
    memory_mb: float  # most that the whole pipeline took

    @property
    def is_shared(self) -> bool:
        return self.others_cores > _SHARED_CORES


@dataclasses.dataclass(frozen=True, kw_only=True)
class Demand:
    """What training asks of each host: its part of a global batch in every step."""

    global_batch: int
    slice: Slice
    step_ms: float | None = None  # None: not known

    @property
    def examples_a_step(self) -> float:
        """Examples of a step that one host feeds."""
        return self.global_batch / self.slice.hosts

    @property
    def examples_per_s(self) -> float | None:
        return None if self.step_ms is None else 1e3 * self.examples_a_step / self.step_ms


@dataclasses.dataclass(frozen=True, kw_only=True)
class Certificate:
    stages: tuple[Line, ...]  # in order, each alone
    together: Line
    host: Host
    demand: Demand

    @property
    def limiting(self) -> Line:
        """The slowest stage alone."""
        return min(self.stages, key=lambda line: line.examples_per_s)

    @property
    def shortest_step_ms(self) -> float:
        """The shortest steps that are fed, with the margin."""
        return 1e3 * MARGIN * self.demand.examples_a_step / self.together.examples_per_s

    @property
    def headroom(self) -> float | None:
        """What the pipeline gives, divided by what training needs; None if no step time is known."""
        needed = self.demand.examples_per_s
        return None if needed is None else self.together.examples_per_s / needed

    @property
    def is_fed(self) -> bool | None:
        return None if self.headroom is None else self.headroom >= MARGIN

    @property
    def verdict(self) -> str:
        return {None: "NO STEP TIME GIVEN", True: "FED", False: "STARVED"}[self.is_fed]

    def bound(self, line: Line) -> Bound:
        """What keeps a stage from being faster."""
        if line.wanted_cores < _WAITING_CORES:
            return "waiting"
        # If others take cores, too few threads look the same as threads that were kept waiting.
        takes_all = line.wanted_cores >= _ALL_CORES * self.host.cores or self.host.is_shared
        return "cores" if takes_all else "threads"

    @property
    def cores_needed(self) -> int | None:
        """How many such cores feed the demand; None if no number does, or no step time is given."""
        needed = self.demand.examples_per_s
        if needed is None or self.stuck:
            return None
        return max(1, math.ceil(MARGIN * needed * self.together.cpu_us / 1e6))

    @property
    def stuck(self) -> tuple[Line, ...]:
        """Stages that are too slow alone and that more cores would not make faster."""
        needed = self.demand.examples_per_s or 0.0
        return tuple(
            line
            for line in self.stages
            if self.bound(line) != "cores" and line.examples_per_s < MARGIN * needed
        )

    def as_json(self) -> dict:
        """What --json writes."""
        return {
            "verdict": self.verdict,
            "limiting": self.limiting.name,
            "limited_by": self.bound(self.limiting),
            "headroom": self.headroom,
            "cores_needed": self.cores_needed,
            "shortest_step_ms": self.shortest_step_ms,
            "needed_examples_per_s": self.demand.examples_per_s,
            "demand": dataclasses.asdict(self.demand),
            "host": dataclasses.asdict(self.host),
            "stages": [_line(line) for line in self.stages],
            "together": _line(self.together),
        }


def _line(line: Line) -> dict:
    return dataclasses.asdict(line) | {"mb_per_s": line.mb_per_s}
