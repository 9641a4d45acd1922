"""A number that was estimated from examples, and what it leaves open: intervals and p-values."""

import abc
import dataclasses
import math

import numpy as np
from scipy import special


class Estimate(abc.ABC):
    """A metric of a model, or the difference of two models.

    Attributes:
      value: the estimate itself; NaN where the examples have none.
      standard_error: of `value`; NaN where the examples do not tell it.
      units: that are independent of each other: clusters where rows come in clusters, else rows.
      method: how interval and p-value are made, with its source.
    """

    value: float
    standard_error: float
    units: int
    method: str

    @abc.abstractmethod
    def interval(self, confidence: float) -> tuple[float, float]:
        """The two-sided confidence interval, (low, high); NaNs where there is none."""

    @abc.abstractmethod
    def tails(self, null: float) -> tuple[float, float]:
        """How likely an estimate so (low, high) or more so is where the truth is `null`."""

    def p(self, null: float = 0.0) -> float:
        """The two-sided p-value of the hypothesis that the truth is `null`: twice the smaller tail.

        NaN where the examples do not tell it.
        """
        return float(np.minimum(1.0, 2 * np.min(self.tails(null))))


@dataclasses.dataclass(frozen=True, kw_only=True)
class StudentT(Estimate):
    """An estimate whose error follows Student's t; the normal distribution where `degrees` is infinite.

    `bounds` are the least and the greatest value that the truth can have: no interval leaves them.
    """

    value: float
    standard_error: float
    units: int
    method: str
    degrees: float
    bounds: tuple[float, float] = (-math.inf, math.inf)

    def interval(self, confidence: float) -> tuple[float, float]:
        if not math.isfinite(self.standard_error):
            return math.nan, math.nan
        reach = float(special.stdtrit(self.degrees, (1 + confidence) / 2)) * self.standard_error
        low, high = np.clip((self.value - reach, self.value + reach), *self.bounds)
        return float(low), float(high)

    def tails(self, null: float) -> tuple[float, float]:
        distance = self.value - null
        if self.standard_error == 0:  # no spread at all: equal, or different for certain
            return (0.5, 0.5) if distance == 0 else (float(distance > 0), float(distance < 0))
        t = distance / self.standard_error
        return float(special.stdtr(self.degrees, t)), float(special.stdtr(self.degrees, -t))
