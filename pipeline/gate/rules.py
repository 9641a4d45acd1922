"""The rules by which a challenger takes the champion's place."""

import dataclasses
import math
import numbers
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from pipeline.base.errors import InputError, did_you_mean, unknown_name
from pipeline.base.values import Rule, broken_rules
from pipeline.gate.metrics import NAMES

RULES = ("superiority", "non_inferiority")


@dataclasses.dataclass(frozen=True, kw_only=True)
class GateRules:
    """The rules of the gate. Margins are in units of the metric: 0.01 means worse by 0.01.

    Attributes:
      metric: the one that decides; empty: log_loss for classes, items and tokens, mean_squared_error for
        values, ndcg_at_10 for groups.
      rule: "superiority": better by more than chance; "non_inferiority": not worse by `margin` or more.
      margin: above 0 with non_inferiority, else 0.
      confidence: the confidence of all intervals, which are two-sided. A model is better where its whole
        interval is better: at 0.95, chance alone promotes an equal model in 2.5% of all cases.
      power: the chance that the reported number of deciding examples is enough.
      slices: features; each value of a feature is a slice, which is evaluated by itself.
      slice_margin: how much worse a slice may be.
      least_slice: the fewest rows of a slice that is evaluated.
      least_rows: the fewest rows of a holdout that decides.
      least_clusters: if rows come in clusters, the fewest clusters of a holdout and of a slice; and of each
        class, if the metric is an area under a curve. Rows and clusters of unequal weight count as their
        effective number at equal weight.
      anchor_margin: how much worse than the anchor a model may be; it ends a series of small steps down.
        None: twice `margin`.
      floors: metric → the worst value of a model that has no champion to beat.
      clustered_by: the feature whose equal values are one cluster; empty: rows are independent.
      resamples, seed: those of the bootstrap.
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
        object.__setattr__(self, "slices", check_names("slices", self.slices))
        object.__setattr__(self, "floors", numbers_by_name("floors", self.floors, NAMES))
        check_choice("metric", self.metric, ("", *NAMES))
        check_choice("rule", self.rule, RULES)
        for name, value, expected in broken_rules(vars(self), _RULES):
            raise rules_error(name, repr(value), expected)
        self._check_margin()

    @staticmethod
    def of(mapping: Mapping[str, Any]) -> "GateRules":
        """Reads the rules from a mapping; raises InputError for an unknown key."""
        known = [field.name for field in dataclasses.fields(GateRules)]
        given = dict(mapping)
        for key in given.keys() - set(known):
            raise unknown_name("rules of the gate", key, known, expected="some of", otherwise="Leave it out.")
        return GateRules(**given)

    @property
    def allowed_below_champion(self) -> float:
        return self.margin if self.rule == "non_inferiority" else 0.0

    @property
    def allowed_below_anchor(self) -> float:
        return 2 * self.margin if self.anchor_margin is None else self.anchor_margin

    def to_json(self) -> dict[str, Any]:
        return dataclasses.asdict(self)

    def _check_margin(self) -> None:
        if self.rule == "superiority" and self.margin:
            raise rules_error(
                "margin",
                self.margin,
                "0 where the rule is 'superiority'",
                "Ask for 'non_inferiority', or leave it out.",
            )
        if self.rule == "non_inferiority" and not self.margin:
            raise rules_error(
                "margin",
                self.margin,
                "the loss that does not matter, above 0, where the rule is 'non_inferiority'",
                "Set it.",
            )


# --- Checks of single values. Each raises InputError.


def check_choice(name: str, value: object, choices: Sequence[str]) -> None:
    if value not in choices:
        action = did_you_mean(str(value), choices, otherwise="Choose one of them.")
        raise rules_error(name, repr(value), " or ".join(map(repr, choices)), action)


def check_names(name: str, value: object) -> tuple[str, ...]:
    """Returns names of features as a tuple."""
    if (
        isinstance(value, str)
        or not isinstance(value, Sequence)
        or not all(isinstance(one, str) for one in value)
    ):
        raise rules_error(name, repr(value), "a list of names of features")
    for one in value:
        if list(value).count(one) > 1:
            raise rules_error(name, f"'{one}' twice", "each feature once")
    return tuple(value)


def numbers_by_name(name: str, value: object, known: Sequence[str]) -> dict[str, float]:
    """Returns a mapping of known names to finite numbers as a dict."""
    if not hasattr(value, "items"):
        raise rules_error(name, repr(value), "metrics with a number each")
    for key, one in value.items():
        check_choice(name, key, known)
        if not (is_number(one) and math.isfinite(one)):
            raise rules_error(f"{name}.{key}", repr(one), "a finite number")
    return {key: float(one) for key, one in value.items()}


def is_number(value: object, kind: type = numbers.Real) -> bool:
    return isinstance(value, kind) and not isinstance(value, bool)


def _whole(least: int) -> Rule:
    return (
        lambda value: is_number(value, numbers.Integral) and value >= least,
        f"a whole number from {least} on",
    )


_SHARE: Rule = (lambda value: is_number(value) and 0.5 < value < 1, "a number above 0.5 and below 1")
_NOT_NEGATIVE: Rule = (lambda value: is_number(value) and 0 <= value < math.inf, "a number from 0 on")
_RULES: Mapping[str, Rule] = {
    "clustered_by": (lambda value: isinstance(value, str), "the name of a feature, or nothing"),
    **dict.fromkeys(("confidence", "power"), _SHARE),
    **dict.fromkeys(("margin", "slice_margin"), _NOT_NEGATIVE),
    "anchor_margin": (lambda value: value is None or _NOT_NEGATIVE[0](value), _NOT_NEGATIVE[1]),
    **dict.fromkeys(("least_slice", "least_rows", "least_clusters"), _whole(2)),
    "resamples": _whole(100),
    "seed": _whole(0),
}


def rules_error(
    name: str, received: object, expected: str, action: str = "Correct it, or leave it out."
) -> InputError:
    return InputError(f"rule '{name}' of the gate", received=received, expected=expected, action=action)


# --- Reuse: with each further evaluation on the same holdout, a model is more likely to pass by chance.


@dataclasses.dataclass(frozen=True, kw_only=True)
class Reuse:
    """The reuse of a holdout.

    Attributes:
      count: challengers that were evaluated before on rows of this holdout.
      luck: an upper bound of the chance that one or more of them, or this one, is promoted without merit: 1 -
        (1 - a)ⁿ, where a is half of (1 - confidence). Z. Šidák, "Rectangular confidence regions for the means
        of multivariate normal distributions" (1967).
    """

    count: int
    luck: float
    meaning: str

    @staticmethod
    def of(count: int, rules: GateRules) -> "Reuse":
        """Makes the reuse; raises InputError where `count` is not a whole number of at least 0."""
        if not (is_number(count, numbers.Integral) and count >= 0):
            raise InputError(
                "reuse of the holdout",
                received=repr(count),
                expected="how many challengers it evaluated before, a whole number from 0 on",
                action="Count the cycles that used it.",
            )
        luck = 1 - (1 - (1 - rules.confidence) / 2) ** (int(count) + 1)
        return Reuse(count=int(count), luck=luck, meaning=_meaning(int(count), luck))


def _meaning(count: int, luck: float) -> str:
    if not count:
        return f"this holdout is used for the first time: chance alone would promote with {luck:.1%} at most"
    challengers = "challenger" if count == 1 else "challengers"
    return (
        f"rows of this holdout evaluated {count:,} {challengers} before: the chance "
        f"that one of {count + 1:,} without merit is promoted is up to {luck:.1%}; a new holdout resets it"
    )
