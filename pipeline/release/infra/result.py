"""What the infra check found, for the gate, the report and the receipt."""

import dataclasses
from collections.abc import Mapping, Sequence

from pipeline.release.infra.limits import Limits


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
