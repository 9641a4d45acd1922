"""A holdout that judges again and again gives chance more and more tries."""

import dataclasses
import numbers

from pipeline.data.errors import InputError
from pipeline.release.gate.rules import GateRules


@dataclasses.dataclass(frozen=True, kw_only=True)
class Reuse:
    """Attributes:

    count: challengers that were judged before by rows of this holdout.
    luck: the chance, at most, that one at least of all these and this one was promoted without merit:
      1 - (1 - a)ⁿ, where a is half of what the confidence leaves open. Z. Šidák, "Rectangular confidence
      regions for the means of multivariate normal distributions" (1967).
    """

    count: int
    luck: float
    meaning: str

    @staticmethod
    def of(count: int, rules: GateRules) -> "Reuse":
        """Raises InputError for what is no count."""
        if isinstance(count, bool) or not isinstance(count, numbers.Integral) or count < 0:
            raise InputError(
                "reuse of the holdout",
                received=repr(count),
                expected="how many challengers it judged before, a whole number from 0 on",
                action="Count the cycles that used it.",
            )
        luck = 1 - (1 - (1 - rules.confidence) / 2) ** (int(count) + 1)
        return Reuse(count=int(count), luck=luck, meaning=_meaning(int(count), luck))


def _meaning(count: int, luck: float) -> str:
    if not count:
        return f"this holdout judges for the first time: chance alone would promote with {luck:.1%} at most"
    challengers = "challenger" if count == 1 else "challengers"
    return (
        f"rows of this holdout judged {count:,} {challengers} before: the chance "
        f"that one of {count + 1:,} without merit is promoted is up to {luck:.1%}; a new holdout resets it"
    )
