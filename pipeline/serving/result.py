"""What the infra check found, for the gate, the report and the receipt."""

import dataclasses
from collections.abc import Mapping, Sequence

from pipeline.base.errors import InputError

# --- How slow and how large a model may be, alone and beside the champion.


@dataclasses.dataclass(frozen=True, kw_only=True)
class Limits:
    """What a model may cost. Each ratio is to the champion, and counts only beyond its slack.

    A difference within the slack is never a fault: of a model that answers in 0.2 ms, twice as much is noise.

    Attributes:
      calls: that are timed, of one row and of the largest recorded batch each.
      rounds: in which the two models take turns, so that a busy moment of the machine meets both.
      seconds: that a model's process has for all that it is asked, from its start on.
      median_ms, p99_ms, memory_mib, disk_mib: the most that a model may have whatever the champion has; None:
        any. The times are those of one row.
      process_mib: the most memory that the process may ask the kernel for; None: as much as there is.
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
        """Raises InputError where a limit is no number from 0 on, or a ratio is below 1."""
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            least = 1 if field.name.endswith("_ratio") or field.name in ("calls", "rounds") else 0
            if value is not None and not value >= least:
                raise InputError(
                    f"limit '{field.name}' of the infra check",
                    received=value,
                    expected=f"a number from {least} on",
                    action="Correct it, or leave it out.",
                )


@dataclasses.dataclass(frozen=True, kw_only=True)
class Latency:
    """Of calls of `serving_default` in a warm process, milliseconds of wall time.

    `medians` are those of each round, in which champion and challenger took turns.
    """

    rows: int
    calls: int
    median_ms: float
    p99_ms: float
    medians: Sequence[float]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Measured:
    """What a model costs.

    Attributes:
      latency: of a row alone, and of the largest recorded batch if it has more.
      memory_mib: the most resident memory of its process beyond what TensorFlow took before it was loaded.
      process_mib: the most resident memory of all.
      load_seconds: from the call to load until it was loaded.
      disk_mib: of all files of its directory.
      asked: whose examples it was timed with: "the recorded requests", or its own golden examples where it
        cannot read those.
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
      exact: whether they had to be those recorded, bit for bit.
      worst: the largest difference as a share of the largest number of its answer.
    """

    calls: int
    rows: int
    exact: bool
    tolerance: float
    worst: float


@dataclasses.dataclass(frozen=True, kw_only=True)
class InfraResult:
    """Attributes:

    directory: that was checked.
    reasons: why it must not serve, a sentence each; none: it may.
    replayed, measured: None where it did not come so far.
    champion: what it was compared with; None where there was none or it could not be measured.
    """

    directory: str
    against: str
    reasons: Sequence[str]
    limits: Limits
    replayed: Replayed | None = None
    measured: Measured | None = None
    champion: Measured | None = None

    @property
    def passed(self) -> bool:
        return not self.reasons

    def to_json(self) -> Mapping[str, object]:
        """All of it, and `passed`."""
        return {"passed": self.passed, **dataclasses.asdict(self)}
