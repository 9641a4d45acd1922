"""Shares of right answers for unweighted, independent rows: Wilson's interval, and McNemar's pairs."""

import dataclasses
import math
from collections.abc import Callable

import numpy as np
from scipy import optimize, special
from statsmodels.stats.proportion import proportion_confint

from pipeline.gate.statistics.estimates import Estimate, Sample

WILSON = "Wilson 1927"
MCNEMAR = "McNemar 1947, interval by Tango 1998"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Shares:
    """Metrics that are the mean of a column of zeros and ones."""

    sample: Sample

    def value(self, model: str) -> "Share":
        column = self.sample.columns[model]
        return Share(right=int(column.sum()), units=len(column))

    def difference(self, model: str, other: str) -> "PairedShares":
        pairs = self.sample.columns[model] - self.sample.columns[other]
        return PairedShares(gained=int((pairs > 0).sum()), lost=int((pairs < 0).sum()), units=len(pairs))


@dataclasses.dataclass(frozen=True, kw_only=True)
class Share(Estimate):
    """The share of `right` answers among `units`; the interval is E. B. Wilson's (1927), which also holds
    near 0 and 1.
    """

    right: int
    units: int
    method = WILSON

    @property
    def value(self) -> float:
        return self.right / self.units

    @property
    def standard_error(self) -> float:
        return math.sqrt(self.value * (1 - self.value) / self.units)

    def interval(self, confidence: float) -> tuple[float, float]:
        low, high = proportion_confint(self.right, self.units, alpha=1 - confidence, method="wilson")
        return float(low), float(high)

    def tails(self, null: float) -> tuple[float, float]:
        return _normal_tails(self.value - null, math.sqrt(null * (1 - null) / self.units))


@dataclasses.dataclass(frozen=True, kw_only=True)
class PairedShares(Estimate):
    """Pairs of answers: `gained` counts those where only the first is right, `lost` only the second.

    The test of no difference is Q. McNemar's (1947) without the correction for continuity, as advised by M.
    W. Fagerland, S. Lydersen and P. Laake, "The McNemar test for binary matched-pairs data" (2013). T. Tango,
    "Equivalence test and confidence interval for the difference in proportions for the paired-sample design"
    (1998), has the score test of any other difference; at 0 it is McNemar's. The interval holds the
    differences that the test does not reject.
    """

    gained: int
    lost: int
    units: int
    method = MCNEMAR

    @property
    def value(self) -> float:
        return (self.gained - self.lost) / self.units

    @property
    def standard_error(self) -> float:
        spread = (self.gained + self.lost) / self.units - self.value**2
        return math.sqrt(max(spread, 0.0) / self.units)

    def interval(self, confidence: float) -> tuple[float, float]:
        reach = float(special.ndtri((1 + confidence) / 2))
        return (
            _crossing(lambda null: self.score(null) - reach, -1.0, self.value),
            _crossing(lambda null: self.score(null) + reach, self.value, 1.0),
        )

    def tails(self, null: float) -> tuple[float, float]:
        score = self.score(null)
        return float(special.ndtr(score)), float(special.ndtr(-score))

    def score(self, null: float) -> float:
        """Returns how many standard errors the difference is above `null`: Tango's equations 3 to 5."""
        distance = self.gained - self.lost - self.units * null
        if not distance:
            return 0.0
        variance = self.units * (2 * self._lost_share(null) + null * (1 - null))
        return distance / math.sqrt(variance) if variance > 0 else math.copysign(math.inf, distance)

    def _lost_share(self, null: float) -> float:
        """Returns the most likely share of lost pairs if the difference is `null`: a root of a quadratic."""
        a = 2 * self.units
        b = -self.gained - self.lost + (a - self.gained + self.lost) * null
        c = -self.lost * null * (1 - null)
        return (math.sqrt(max(b * b - 4 * a * c, 0.0)) - b) / (2 * a)


def _crossing(excess: Callable[[float], float], low: float, high: float) -> float:
    """Returns where a falling function crosses 0, or the nearer end if it does not."""
    if excess(low) <= 0:
        return low
    if excess(high) >= 0:
        return high
    return float(
        optimize.brentq(lambda at: np.clip(excess(at), -1e9, 1e9), low, high, xtol=1e-13, rtol=1e-14)
    )


def _normal_tails(distance: float, error: float) -> tuple[float, float]:
    if error == 0:
        return (0.5, 0.5) if distance == 0 else (float(distance > 0), float(distance < 0))
    return float(special.ndtr(distance / error)), float(special.ndtr(-distance / error))
