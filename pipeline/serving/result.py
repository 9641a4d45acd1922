"""The result of the infra check, for the gate, the report and the stage result."""

import dataclasses
from collections.abc import Mapping, Sequence

from pipeline.base.errors import InputError


class CheckResult:
    """Base of results. `reasons` are sentences that say why a model must not serve; if there are none, it
    may.
    """

    reasons: Sequence[str]

    @property
    def passed(self) -> bool:
        return not self.reasons

    def to_json(self) -> Mapping[str, object]:
        """Returns all fields, and `passed`."""
        return {"passed": self.passed, **dataclasses.asdict(self)}


def require_limits(limits: object, *, check: str, least: Mapping[str, float]) -> None:
    """Raises InputError for a limit of a check below its least value; None is no limit."""
    for name, smallest in least.items():
        value = getattr(limits, name)
        if value is not None and not value >= smallest:
            raise InputError(
                f"limit '{name}' of {check}",
                received=value,
                expected=f"a number from {smallest} on",
                action="Correct it, or leave it out.",
            )


@dataclasses.dataclass(frozen=True, kw_only=True)
class Limits:
    """Limits of a model's cost. Each ratio is to the champion, and counts only beyond its slack.

    A difference within the slack is never a fault: for a model that takes 0.2 ms, twice as much is noise.

    Attributes:
      calls: how many calls are timed, each for one row and for the largest recorded batch.
      rounds: how often the two models take turns, so that a busy moment of the machine meets both.
      seconds: the time limit of a model's process for all its answers, from its start on.
      median_ms, p99_ms, memory_mib, disk_mib: limits that do not depend on the champion; None: no limit. The
        times are for one row.
      process_mib: the most memory that the process may get from the kernel; None: no limit.
    """

    calls: int = 200
    rounds: int = 5
    seconds: float = 600.0
    median_ratio: float = 2.0
    median_slack_ms: float = 2.0
    p99_ratio: float = 4.0
    p99_slack_ms: float = 20.0
    memory_ratio: float = 1.5
    memory_slack_mib: float = 128.0
    disk_ratio: float = 2.0
    disk_slack_mib: float = 16.0
    median_ms: float | None = None
    p99_ms: float | None = None
    memory_mib: float | None = None
    disk_mib: float | None = None
    process_mib: int | None = None

    def __post_init__(self) -> None:
        names = [field.name for field in dataclasses.fields(self)]
        least = {name: int(name.endswith("_ratio") or name in ("calls", "rounds")) for name in names}
        require_limits(self, check="the infra check", least=least)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Latency:
    """Milliseconds of wall time of calls of `serving_default` in a warm process.

    `medians` has the median of each round, in which champion and challenger took turns.
    """

    rows: int
    calls: int
    median_ms: float
    p99_ms: float
    medians: Sequence[float]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Measured:
    """The cost of a model.

    Attributes:
      latency: latency of one row, and of the largest recorded batch if it has more rows.
      memory_mib: the largest resident memory of its process, less TensorFlow's before it was loaded.
      process_mib: the largest resident memory of its process.
      load_seconds: the time to load it.
      disk_mib: the size of the files of its directory, without those for other runtimes.
      asked: the examples with which it was timed: "the recorded requests", or its own golden examples where
        it cannot read those.
    """

    latency: Sequence[Latency]
    memory_mib: float
    process_mib: float
    load_seconds: float
    disk_mib: float
    asked: str


@dataclasses.dataclass(frozen=True, kw_only=True)
class Replayed:
    """The answers to recorded requests.

    Attributes:
      exact: whether they had to equal the recorded ones, bit for bit.
      worst: the largest difference as a share of the largest number of its answer.
    """

    calls: int
    rows: int
    exact: bool
    tolerance: float
    worst: float


@dataclasses.dataclass(frozen=True, kw_only=True)
class InfraResult(CheckResult):
    """The result of the infra check of `directory`.

    Attributes:
      reasons: the reasons why it must not serve, a sentence each; empty if it may.
      replayed, measured: None where the check ended before.
      champion: the cost with which it was compared; None where there was no champion, or no measurement.
    """

    directory: str
    against: str
    reasons: Sequence[str]
    limits: Limits
    replayed: Replayed | None = None
    measured: Measured | None = None
    champion: Measured | None = None
