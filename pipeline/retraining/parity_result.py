"""What the parity gate found, for the gate, the report and the receipt."""

import dataclasses
from collections.abc import Mapping, Sequence

from pipeline.base.errors import InputError

# --- How far an export may be from what was trained.


@dataclasses.dataclass(frozen=True, kw_only=True)
class ParityLimits:
    """Attributes:

    rows: of the holdout that are asked, the first ones as they are stored, which is a random order.
    flipped: the largest part of the rows whose class may be another than in float32.
    moved: for a regression, the largest difference to float32, root of the mean square, as a part of the
      spread of what float32 predicts.
    """

    rows: int = 2_000
    flipped: float = 0.01
    moved: float = 0.05

    def __post_init__(self) -> None:
        """Raises InputError where a limit cannot be one."""
        for name, least in (("rows", 1), ("flipped", 0), ("moved", 0)):
            if not getattr(self, name) >= least:
                raise InputError(
                    f"limit '{name}' of parity",
                    received=getattr(self, name),
                    expected=f"a number from {least} on",
                    action="Correct it, or leave it out.",
                )


@dataclasses.dataclass(frozen=True, kw_only=True)
class Agreement:
    """The export's predictions against those of the graph in memory, bit for bit.

    `differing` rows have another bit; `worst` is the largest difference.
    """

    rows: int
    differing: int
    worst: float


@dataclasses.dataclass(frozen=True, kw_only=True)
class Flips:
    """Predictions in the run's precision against those of the same weights in float32.

    Attributes:
      policy: the run's precision, as Keras calls it.
      flipped: rows of another class; of a regression, which has none, 0.
      rate: `flipped` as a part of the rows.
      moved: the root of the mean squared difference: of probabilities, or of a regression's values as a part
        of the spread of float32's.
    """

    policy: str
    rows: int
    flipped: int
    rate: float
    moved: float


@dataclasses.dataclass(frozen=True, kw_only=True)
class FeatureSkew:
    """A feature that reaches the model as another number in serving than in training.

    `example` tells of one row: what was asked, what training makes of it and what serving does.
    """

    feature: str
    rows: int
    example: str


@dataclasses.dataclass(frozen=True, kw_only=True)
class Skew:
    """The same rows through training's input and through the export's signature `raw`.

    Attributes:
      from_files: rows of which the raw files' own cells were asked with; of the others it was what is stored,
        spelled as the raw data spell it.
      differing: rows whose prediction differs by more than computing it otherwise can; `worst` is the largest
        difference.
      features: those to blame, the most rows first.
    """

    rows: int
    from_files: int
    differing: int
    worst: float
    features: Sequence[FeatureSkew]


@dataclasses.dataclass(frozen=True, kw_only=True)
class ParityResult:
    """Attributes:

    reasons: why the export must not serve, a sentence each; none: it may.
    flips: None where the run computes in float32.
    """

    reasons: Sequence[str]
    limits: ParityLimits
    exported: Agreement
    flips: Flips | None
    skew: Skew

    @property
    def passed(self) -> bool:
        return not self.reasons

    def to_json(self) -> Mapping[str, object]:
        """All of it, and `passed`."""
        return {"passed": self.passed, **dataclasses.asdict(self)}
