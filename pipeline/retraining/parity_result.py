"""The result of the parity gate, for the decision, the report and the stage result."""

import dataclasses
from collections.abc import Sequence

from pipeline.report.comparison import Agreement
from pipeline.serving.result import CheckResult, require_limits


@dataclasses.dataclass(frozen=True, kw_only=True)
class ParityLimits:
    """The limits of differences between an export and its run.

    Attributes:
      rows: how many rows of the holdout are compared: the first stored ones, which are in random order.
      flipped: the largest share of rows whose class is another in float32.
      moved: for values, scores and log-probabilities, the largest root mean square difference from float32,
        as a share of the spread of float32's predictions.
    """

    rows: int = 2_000
    flipped: float = 0.01
    moved: float = 0.05

    def __post_init__(self) -> None:
        require_limits(self, check="parity", least={"rows": 1, "flipped": 0, "moved": 0})


@dataclasses.dataclass(frozen=True, kw_only=True)
class Flips:
    """The comparison of predictions in the run's precision with predictions of the same weights in float32.

    Attributes:
      policy: the run's precision, as Keras calls it.
      flipped: the number of rows with another class; 0 where there are no classes.
      rate: `flipped` as a share of the rows.
      moved: the root mean square difference of probabilities; or that of values, scores or
        log-probabilities, as a share of the spread of float32's.
    """

    policy: str
    rows: int
    flipped: int
    rate: float
    moved: float


@dataclasses.dataclass(frozen=True, kw_only=True)
class FeatureSkew:
    """A feature that reaches the model as different numbers in serving and in training.

    `example` describes one row: the request, and what training and serving make of it.
    """

    feature: str
    rows: int
    example: str


@dataclasses.dataclass(frozen=True, kw_only=True)
class Skew:
    """The comparison of training's input with the export's signature `raw`, on the same rows.

    Attributes:
      from_files: the number of rows whose request had the cells of the raw files; the others, such as all
        rows of groups, had the stored values, spelled as in the raw data.
      differing: the number of rows whose predictions differ by more than rounding; `worst` is the largest
        difference.
      features: the features that differ; the one with most rows comes first.
    """

    rows: int
    from_files: int
    differing: int
    worst: float
    features: Sequence[FeatureSkew]


@dataclasses.dataclass(frozen=True, kw_only=True)
class ParityResult(CheckResult):
    """The result of the parity gate.

    Attributes:
      exported: the comparison of the export with the graph in memory, bit for bit.
      reasons: the reasons why the export must not serve, a sentence each; empty if it may.
      flips: None where the run computes in float32.
    """

    reasons: Sequence[str]
    limits: ParityLimits
    exported: Agreement
    flips: Flips | None
    skew: Skew
