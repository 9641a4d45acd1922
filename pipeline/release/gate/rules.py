"""When a challenger takes the champion's place."""

import dataclasses
from collections.abc import Mapping
from typing import Any, Literal

from pipeline.data.errors import InputError
from pipeline.data.nearest import did_you_mean
from pipeline.release.gate import checked
from pipeline.release.gate.metrics import NAMES

RULES = ("superiority", "non_inferiority")

_LEAST = {"least_slice": 2, "least_rows": 2, "least_clusters": 2, "resamples": 100, "seed": 0}


@dataclasses.dataclass(frozen=True, kw_only=True)
class GateRules:
    """Margins are in units of the metric, whichever way is better: 0.01 means worse by 0.01.

    Attributes:
      metric: that decides; empty: log_loss of classes, mean_squared_error of values.
      rule: "superiority": better by more than chance; "non_inferiority": not worse by `margin` or more.
      margin: above 0 with non_inferiority, else 0.
      confidence: of all intervals, which are two-sided. A model is better where its whole interval is: at
        0.95 chance alone promotes an equal one in 2.5% of all cases.
      power: the chance that the number of examples that would decide is enough.
      slices: features of which each value is judged by itself.
      slice_margin: how much worse a slice may be.
      least_slice: rows, below which a slice is not evaluated.
      least_rows: of the holdout, below which nothing is decided.
      least_clusters: of the holdout, of a slice, and of each class of an area, where rows come in clusters.
        Rows and clusters of other weights count as many as would tell as much at equal weight.
      anchor_margin: how much worse than the anchor; None: twice `margin`, where many small steps down end.
      floors: metric → the worst value of a model that has no champion to beat.
      clustered_by: the feature whose equal values are one cluster; empty: rows are independent.
      resamples, seed: of the bootstrap.
    """

    metric: str = ""
    rule: Literal["superiority", "non_inferiority"] = "superiority"
    margin: float = 0.0
    confidence: float = 0.95
    power: float = 0.9
    slices: tuple[str, ...] = ()
    slice_margin: float = 0.0
    least_slice: int = 200
    least_rows: int = 100
    least_clusters: int = 10
    anchor_margin: float | None = None
    floors: Mapping[str, float] = dataclasses.field(default_factory=dict)
    clustered_by: str = ""
    resamples: int = 1000
    seed: int = 0

    def __post_init__(self) -> None:
        """Raises InputError where a rule cannot be one."""
        object.__setattr__(self, "slices", checked.names("slices", self.slices))
        object.__setattr__(self, "floors", checked.numbers_by_name("floors", self.floors, NAMES))
        checked.choice("metric", self.metric, ("", *NAMES))
        checked.choice("rule", self.rule, RULES)
        checked.text("clustered_by", self.clustered_by)
        for name in ("confidence", "power"):
            checked.number(name, getattr(self, name), above=0.5, below=1)
        for name in ("margin", "slice_margin"):
            checked.number(name, getattr(self, name))
        if self.anchor_margin is not None:
            checked.number("anchor_margin", self.anchor_margin)
        for name, least in _LEAST.items():
            checked.whole(name, getattr(self, name), least=least)
        self._check_margin()

    @staticmethod
    def of(mapping: Mapping[str, Any]) -> "GateRules":
        """Of a dict or an ml_collections ConfigDict; raises InputError for a key that is no rule."""
        known = [field.name for field in dataclasses.fields(GateRules)]
        given = dict(mapping.items())
        for key in given.keys() - set(known):
            raise InputError(
                "rules of the gate",
                received=f"'{key}'",
                expected=f"some of {', '.join(known)}",
                action=did_you_mean(str(key), known, otherwise="Leave it out."),
            )
        return GateRules(**given)

    @property
    def allowed_below_champion(self) -> float:
        """By how much the challenger may be worse."""
        return self.margin if self.rule == "non_inferiority" else 0.0

    @property
    def allowed_below_anchor(self) -> float:
        return 2 * self.margin if self.anchor_margin is None else self.anchor_margin

    def to_json(self) -> dict[str, Any]:
        return dataclasses.asdict(self)

    def _check_margin(self) -> None:
        if self.rule == "superiority" and self.margin:
            raise checked.error(
                "margin",
                self.margin,
                "0 where the rule is 'superiority'",
                "Ask for 'non_inferiority', or leave it out.",
            )
        if self.rule == "non_inferiority" and not self.margin:
            raise checked.error(
                "margin",
                self.margin,
                "the loss that does not matter, above 0, where the rule is 'non_inferiority'",
                "Set it.",
            )
