"""The feed certificate: what an input pipeline gives on this host, what training needs, and which stage is
the limit.
"""

import dataclasses
import math
from collections.abc import Callable

import tensorflow as tf

from pipeline.data.input.stages import Recipe
from pipeline.data.reading.fetch import InFlight
from pipeline.data.reading.sharding import host_cores
from pipeline.feed import measure
from pipeline.feed.measure import (
    Consume,
    Residency,
    Speed,
    StageFeed,
    Uncached,
    first_elements,
    measure_speed,
    per_stage,
    size_of,
)
from pipeline.feed.scaling import LEAST, Bound, Line, Scaling, Slice
from pipeline.feed.slowest import Slowest

MARGIN = 1.1  # factor on what is needed, because storage and neighbours vary

# Reading uncached files is costly if its rate is below this share of the rate from memory.
_COSTLY = 0.5
_SHARED_CORES = 0.25  # cores that other processes take; from there on, they disturb the measurement


@dataclasses.dataclass(frozen=True, kw_only=True)
class Host:
    cores: float
    others_cores: float  # cores of these that other processes took during the measurement
    memory_mb: float  # most memory that the whole pipeline took

    @property
    def is_shared(self) -> bool:
        return self.others_cores > _SHARED_CORES


@dataclasses.dataclass(frozen=True, kw_only=True)
class Demand:
    """The demand of training on each host: its part of a global batch in every step."""

    global_batch: int
    slice: Slice
    step_ms: float | None = None  # None: not known

    @property
    def examples_a_step(self) -> float:
        return self.global_batch / self.slice.hosts

    @property
    def examples_per_s(self) -> float | None:
        return None if self.step_ms is None else 1e3 * self.examples_a_step / self.step_ms


@dataclasses.dataclass(frozen=True, kw_only=True)
class OfSlice:
    """The least that a host of the slice gives, with cores like those that were measured."""

    cores: int
    examples_per_s: float
    headroom: float | None
    limiting: str


@dataclasses.dataclass(frozen=True, kw_only=True)
class Certificate:
    """The verdict on this host, from a measurement during which other processes ran too; it also predicts
    other hosts.
    """

    stages: tuple[Line, ...]  # in order, each measured by itself
    together: Line
    uncached: Line | None = None  # all stages together, with files from the disk; None: not measured
    files: Residency | None = None  # before anything was measured; None: the files are not on this host
    in_flight: InFlight | None = None  # parallel reads of the files; None for mapped files
    slowest: Slowest | None = None  # None: examples have no pictures
    host: Host
    demand: Demand

    @property
    def scaling(self) -> Scaling:
        return Scaling(
            cores=self.host.cores,
            is_shared=self.host.is_shared,
            batch=max(1, self.demand.global_batch // self.demand.slice.replicas),
            stages=self.stages,
            together=self.together,
            uncached=self.uncached,
        )

    @property
    def measured(self) -> Line:
        """All stages together, at the slower of the two speeds."""
        lines = (self.together, self.uncached) if self.uncached else (self.together,)
        return min(lines, key=lambda line: line.examples_per_s)

    @property
    def limiting(self) -> Line:
        """The stage that limits the rate; or reading from the disk, where the disk is slow or reading takes
        the cores.
        """
        return self.uncached if self.uncached_is_costly else self.scaling.limiting(self.host.cores)

    @property
    def uncached_is_costly(self) -> bool:
        """Returns whether reading uncached files is slow although the disk is not.

        With few rows, opening the files takes most of the time.
        """
        if self.uncached is None or self.scaling.disk_is_slow:
            return False
        return self.uncached.examples_per_s < _COSTLY * self.together.examples_per_s

    @property
    def why_limiting(self) -> str | None:
        """The reason why the limit is not the stage that was slowest by itself; None where it is."""
        limit, slowest = self.limiting, min(self.stages, key=lambda line: line.examples_per_s)
        if limit.examples_per_s <= slowest.examples_per_s:
            return None
        if limit is self.uncached:
            return f"{limit.name} takes the cores, or waits for the disk, though {slowest.name} was slower"
        own, other = (self.scaling.undisturbed(line, self.host.cores) for line in (limit, slowest))
        if own == other:
            return f"{limit.name} takes most of the thread that it shares with {slowest.name}"
        return (
            f"with the cores to itself {limit.name} gives {own:,.0f} examples/s, "
            f"and {slowest.name}, which was measured slower, {other:,.0f}"
        )

    @property
    def shortest_step_ms(self) -> float:
        """The time of the shortest steps for which the pipeline is fast enough, with the margin."""
        return 1e3 * MARGIN * self.demand.examples_a_step / self.measured.examples_per_s

    @property
    def headroom(self) -> float | None:
        """The pipeline's speed divided by what training needs; None if no step time is known."""
        needed = self.demand.examples_per_s
        return None if needed is None else self.measured.examples_per_s / needed

    @property
    def hidden_s(self) -> float:
        """The time for which steps go on with what is ready, while the slowest example is prepared."""
        steps = (self.slowest.ready if self.slowest else 0.0) / self.demand.examples_a_step
        return steps * (self.demand.step_ms or self.shortest_step_ms) / 1e3

    @property
    def waits_for_slowest(self) -> bool:
        return self.slowest is not None and self.slowest.seconds > self.hidden_s

    @property
    def is_fed(self) -> bool | None:
        return None if self.headroom is None else self.headroom >= MARGIN

    @property
    def verdict(self) -> str:
        return {None: "NO STEP TIME GIVEN", True: "FED", False: "STARVED"}[self.is_fed]

    def bound(self, line: Line) -> Bound:
        """Returns what keeps a stage from being faster."""
        return self.scaling.bound(line)

    @property
    def cores_needed(self) -> int | None:
        """How many cores like this host's surely meet the demand.

        None if no number does, or if no step time is given.
        """
        needed = self.demand.examples_per_s
        if needed is None:
            return None
        cores, here = self.scaling.cores_for(MARGIN * needed), math.ceil(self.host.cores)
        if self.is_fed:  # the measurement of all stages counts for more than a prediction
            return min(cores or here, here)
        return cores if cores is None or self.host.is_shared else max(cores, math.floor(self.host.cores) + 1)

    @property
    def stuck(self) -> tuple[Line, ...]:
        """The stages that are too slow, and would be on any number of cores."""
        return self.scaling.stuck(MARGIN * (self.demand.examples_per_s or 0.0))

    @property
    def unsure(self) -> tuple[Line, ...]:
        """The stages that may be too slow on any number of cores; it is not known."""
        return self.scaling.unsure(MARGIN * (self.demand.examples_per_s or 0.0))

    @property
    def of_slice(self) -> "OfSlice | None":
        """The speed of a host of the slice; None if its cores are not known."""
        cores = self.demand.slice.host_cores
        if cores is None:
            return None
        rate, needed = self.scaling.rate(cores, LEAST), self.demand.examples_per_s
        return OfSlice(
            cores=cores,
            examples_per_s=rate,
            headroom=None if needed is None else rate / needed,
            limiting=self.scaling.limiting(cores).name,
        )

    def as_json(self) -> dict:
        return {
            "verdict": self.verdict,
            "limiting": self.limiting.name,
            "limited_by": self.bound(self.limiting),
            "headroom": self.headroom,
            "cores_needed": self.cores_needed,
            "shortest_step_ms": self.shortest_step_ms,
            "needed_examples_per_s": self.demand.examples_per_s,
            "demand": dataclasses.asdict(self.demand),
            "of_slice": dataclasses.asdict(self.of_slice) if self.of_slice else None,
            "files": dataclasses.asdict(self.files) if self.files else None,
            "reads": dataclasses.asdict(self.in_flight) if self.in_flight else None,
            "slowest": dataclasses.asdict(self.slowest) | {"hidden_s": self.hidden_s}
            if self.slowest
            else None,
            "host": dataclasses.asdict(self.host),
            "stages": [_line(line) for line in self.stages],
            "together": _line(self.together),
            "cold": _line(self.uncached) if self.uncached else None,
        }


def _line(line: Line) -> dict:
    return dataclasses.asdict(line) | {"mb_per_s": line.mb_per_s}


# --- Measuring a recipe.


_TOGETHER, _FROM_DISK = "together", "from disk"


def measure_certificate(
    recipe: Recipe,
    demand: Demand,
    *,
    copy: Consume,
    seconds: float,
    files: Residency | None = None,
    uncached_files: Uncached | None = None,
    on_stage: Callable[[str], None] = lambda name: None,
) -> Certificate:
    """Measures all stages of one host's recipe together, then each alone.

    Args:
      copy: takes a batch to the device; see `copy_to`.
      seconds: time for measuring each stage; the certificate takes about twice as long for each.
      files: how much of the files was in the page cache.
      uncached_files: if given, all stages together are also measured while these files are read from the
        disk.
      on_stage: receives the name of each stage before it is measured.
    """
    on_stage(_TOGETHER)  # comes first, so that it reuses no memory that another stage has freed
    before = measure.memory_bytes()
    together = _together(recipe)
    speed = measure_speed(together.dataset, examples=together.examples, seconds=2 * seconds, consume=copy)
    memory_bytes = max(0, speed.memory_bytes - before)
    speeds, lines = [speed], []
    for stage in per_stage(recipe, patience_s=seconds / 2):
        on_stage(stage.name)
        consume = copy if stage.is_copied else None
        speeds.append(measure_speed(stage.dataset, examples=stage.examples, seconds=seconds, consume=consume))
        lines.append(_certificate_line(stage, speeds[-1]))
    from_disk = None
    if uncached_files:
        on_stage(_FROM_DISK)
        # Evicted, so that its reads are measured like those of a first epoch.
        measure.evict(uncached_files.paths)
        speeds.append(
            measure.measure_uncached(
                recipe.dataset(),
                uncached_files,
                examples=together.examples,
                seconds=2 * seconds,
                consume=copy,
            )
        )
        from_disk = dataclasses.replace(
            _certificate_line(together, speeds[-1]), name=_FROM_DISK, at_once=recipe.read_at_once
        )
    return Certificate(
        stages=tuple(lines),
        together=_certificate_line(together, speed),
        uncached=from_disk,
        files=files,
        in_flight=recipe.in_flight,
        host=Host(
            cores=host_cores(),
            others_cores=sum(speed.others_cores for speed in speeds) / len(speeds),
            memory_mb=memory_bytes / 1e6,
        ),
        demand=demand,
    )


def copy_to(device: str) -> Consume:
    """Copies an element's tensors to `device`, a name of TensorFlow's; if that is a CPU, within the host's
    memory.
    """

    def to_accelerator(tensor: tf.Tensor) -> tf.Tensor:
        with tf.device(device):
            return tf.identity(tensor)

    def in_memory(tensor: tf.Tensor) -> tf.Tensor:
        # On a CPU, `identity` copies nothing, so this copies in another way. Training does not copy text
        # either.
        return tensor if tensor.dtype == tf.string else tf.raw_ops.DeepCopy(x=tensor)

    copied = in_memory if "CPU" in device.upper() else to_accelerator
    return lambda *element: tf.nest.map_structure(copied, element)


def _together(recipe: Recipe) -> StageFeed:
    dataset = recipe.dataset()
    size = size_of(first_elements(dataset, 1)) / recipe.batch
    return StageFeed(name=_TOGETHER, dataset=dataset, examples=recipe.batch, bytes_per_example=size)


def _certificate_line(stage: StageFeed, speed: Speed) -> Line:
    return Line(
        name=stage.name,
        examples_per_s=speed.examples_per_s,
        cpu_us=speed.cpu_us,
        bytes_per_example=stage.bytes_per_example,
        wanted_cores=speed.wanted_cores,
        at_once=stage.at_once,
        thread=stage.thread,
    )
