"""Numbers that are estimated from examples, with their intervals and p-values."""

import abc
import dataclasses
import math
from collections.abc import Mapping

import numpy as np
from scipy import special
from statsmodels.stats.power import normal_sample_size_one_tail


class Estimate(abc.ABC):
    """A metric of a model, or the difference of two models.

    Attributes:
      value: the estimate itself; NaN where the examples give none.
      standard_error: standard error of `value`; NaN where the examples give none.
      units: the number of independent units: clusters where rows come in clusters, else rows.
      method: how interval and p-value are computed, with its source.
    """

    value: float
    standard_error: float
    units: int
    method: str

    @abc.abstractmethod
    def interval(self, confidence: float) -> tuple[float, float]:
        """Returns the two-sided confidence interval, (low, high); NaNs where there is none."""

    @abc.abstractmethod
    def tails(self, null: float) -> tuple[float, float]:
        """Returns the chances of an estimate this low or lower, and this high or higher, if the truth is
        `null`.
        """

    def p(self, null: float = 0.0) -> float:
        """Returns the two-sided p-value of the truth being `null`: twice the smaller tail."""
        return float(np.minimum(1.0, 2 * np.min(self.tails(null))))


@dataclasses.dataclass(frozen=True, kw_only=True)
class StudentT(Estimate):
    """An estimate whose error follows Student's t; the normal distribution where `degrees` is infinite.

    If a few numbers are far from the others, such as the losses of a rare class, t is too narrow on one side.
    Where two models differ only in their bias, it promoted the one that favours the common class in 4.3% of
    cases instead of 2.5% (2,000 rows, 1 in 100 positive). So there is a second interval, that
    of P. Hall, "On the removal of skewness by transformation" (1992); each side is the wider one of the two.

    Attributes:
      degrees: degrees of freedom.
      skew: the skewness of the mean of the units: the skewness of one unit, divided by the root of their
        number.
      bounds: the least and the greatest value that the truth can have; no interval goes beyond them.
    """

    value: float
    standard_error: float
    units: int
    method: str
    degrees: float
    skew: float = 0.0
    bounds: tuple[float, float] = (-math.inf, math.inf)

    def interval(self, confidence: float) -> tuple[float, float]:
        if not math.isfinite(self.standard_error):
            return math.nan, math.nan
        quantile = float(special.stdtrit(self.degrees, (1 + confidence) / 2))
        below, above = (max(quantile, self._from_symmetric(sign * quantile) * sign) for sign in (1, -1))
        error = self.standard_error
        low, high = np.clip((self.value - below * error, self.value + above * error), *self.bounds)
        return float(low), float(high)

    def tails(self, null: float) -> tuple[float, float]:
        distance = self.value - null
        # There is no spread at all: the models are equal, or different for certain.
        if self.standard_error == 0:
            return (0.5, 0.5) if distance == 0 else (float(distance > 0), float(distance < 0))
        t = distance / self.standard_error
        either = np.array([t, self._to_symmetric(t)])
        return tuple(float(special.stdtr(self.degrees, sign * either).max()) for sign in (1, -1))

    def _to_symmetric(self, t: float) -> float:
        """Computes Hall's g(t) = t + s t² / 3 + s² t³ / 27 + s / 6, which rises with t."""
        return t + self.skew * t**2 / 3 + self.skew**2 * t**3 / 27 + self.skew / 6

    def _from_symmetric(self, symmetric: float) -> float:
        """Inverts `_to_symmetric`."""
        if abs(self.skew) < _NO_SKEW:
            return symmetric
        return 3 / self.skew * float(np.cbrt(1 + self.skew * (symmetric - self.skew / 6)) - 1)


_NO_SKEW = 1e-6  # less skew moves an interval by less than the rounding error of its inverse


# --- Samples: one number for each model and example.


@dataclasses.dataclass(frozen=True, kw_only=True)
class Sample:
    """Examples with weights above 0, and the numbers of the models on them.

    Attributes:
      columns: for each model a number for each example, float64 [n]: a loss, 1 for a right answer and 0 for a
        wrong one, or the score of the positive class.
      labels: classes, int64 [n]; for a regression, the number of each distinct value; None: not known.
      rates: the rate of each class in training, in the order of the classes; NaN: not known; empty for a
        regression.
      weights: float64 [n], above 0; None: all are 1.
      clusters: int64 [n], from 0 on without gaps; None: each row is independent of the others.
      are_copies: whether clusters are copies of one row each, which have one label.
    """

    columns: Mapping[str, np.ndarray]
    labels: np.ndarray | None = None
    rates: Mapping[str, float] = dataclasses.field(default_factory=dict)
    weights: np.ndarray | None = None
    clusters: np.ndarray | None = None
    are_copies: bool = False

    @property
    def rows(self) -> int:
        return len(next(iter(self.columns.values())))

    @property
    def positive(self) -> np.ndarray:
        """Whether the label is the second class, bool [n]."""
        return self.labels == 1

    @property
    def units(self) -> int:
        """The number of clusters where there are some, else of rows."""
        return self.rows if self.clusters is None else int(self.clusters.max(initial=-1)) + 1

    @property
    def effective_rows(self) -> float:
        """The number of rows of equal weight that would be as informative; copies of a row count as one row
        together.
        """
        if self.are_copies:
            return self.effective_clusters
        return _effective(np.ones(self.rows) if self.weights is None else self.weights)

    @property
    def effective_clusters(self) -> float:
        """The number of clusters of equal weight that would be as informative; the number of rows where there
        are no clusters.

        Where one cluster outweighs the others, the mean follows it, and its spread cannot be seen: A. V.
        Carter, K. T. Schnepel and D. G. Steigerwald, "Asymptotic behavior of a t-test robust to cluster
        heterogeneity" (2017).
        """
        if self.clusters is None:
            return self.effective_rows
        return _effective(np.bincount(self.clusters, weights=self.weights).astype(np.float64))

    def take(self, rows: np.ndarray) -> "Sample":
        """Returns the sample of some rows; `rows` are indices, or bool [n]."""
        clusters = None
        if self.clusters is not None:
            clusters = np.unique(self.clusters[rows], return_inverse=True)[1]
        return Sample(
            columns={model: column[rows] for model, column in self.columns.items()},
            labels=None if self.labels is None else self.labels[rows],
            rates=self.rates,
            weights=None if self.weights is None else self.weights[rows],
            clusters=clusters,
            are_copies=self.are_copies,
        )


def _effective(weights: np.ndarray) -> float:
    """Computes (Σ w)² / Σ w² of weights [n]: L. Kish, "Survey Sampling" (1965)."""
    if not len(weights):
        return 0.0
    scaled = weights / weights.max()  # otherwise the squares of tiny weights would vanish
    return float(scaled.sum() ** 2 / (scaled**2).sum())


# --- Means over examples, with weights and clusters: losses, errors, and shares of right answers.


PLAIN = "Student's t"
WEIGHTED = "Student's t, robust (HC1: White 1980)"
CLUSTERED = "Student's t, cluster-robust (Liang & Zeger 1986)"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Means:
    """Metrics that are the weighted mean of a column; differences are the mean of paired differences."""

    sample: Sample
    bounds: tuple[float, float] = (-math.inf, math.inf)

    def value(self, model: str) -> StudentT:
        return dataclasses.replace(self._mean(self.sample.columns[model]), bounds=self.bounds)

    def difference(self, model: str, other: str) -> StudentT:
        return self._mean(self.sample.columns[model] - self.sample.columns[other])

    def _mean(self, numbers: np.ndarray) -> StudentT:
        return mean(numbers, weights=self.sample.weights, clusters=self.sample.clusters)


def mean(numbers: np.ndarray, *, weights: np.ndarray | None, clusters: np.ndarray | None) -> StudentT:
    """Estimates the weighted mean of float64 [n] as a regression on a constant does.

    Its variance is the sandwich of K.-Y. Liang and S. L. Zeger, "Longitudinal data analysis using generalized
    linear models" (1986): the squares of the clusters' weighted residual sums, over the square of the sum of
    weights, times G / (G - 1), where G counts the clusters. A row without a cluster is a cluster by itself:
    without weights this gives the usual standard error of a mean. Quantiles are of t with G - 1 degrees of
    freedom: A. C. Cameron and D. L. Miller, "A Practitioner's Guide to Cluster-Robust Inference" (2015),
    section VI.
    """
    value, shares = float(np.average(numbers, weights=weights)), 1 / len(numbers)
    if weights is not None:
        shares = weights / weights.sum()
    parts = (numbers - value) * shares
    if clusters is not None:
        parts = np.bincount(clusters, weights=parts)
    units = len(parts)
    error = math.sqrt(units / (units - 1) * float(parts @ parts)) if units > 1 else math.nan
    return StudentT(
        value=value,
        standard_error=error,
        units=units,
        degrees=max(units - 1, 1),
        skew=_skew(parts),
        method=CLUSTERED if clusters is not None else WEIGHTED if weights is not None else PLAIN,
    )


def _skew(parts: np.ndarray) -> float:
    """Returns the skewness of the sum of independent parts, float64 [units], whose mean is 0."""
    largest = np.abs(parts).max()
    if not largest:
        return 0.0
    scaled = parts / largest  # otherwise the cubes of tiny parts would vanish
    return float((scaled**3).sum() / (scaled @ scaled) ** 1.5)


# --- Power: how many examples would decide what the given ones leave open.


_MOST = 10**12  # examples; a larger number counts as never


def deciding_examples(
    estimate: Estimate, *, null: float, rows: int, confidence: float, power: float
) -> int | None:
    """Returns how many examples like the given `rows` would make the interval exclude `null`.

    They do so with a chance of `power`, if the truth equals the estimate: n = ((z of confidence + z of power)
    · s / d)² is the sample size of a test for means, as in S.-C. Chow, J. Shao and H. Wang, "Sample Size
    Calculations in Clinical Research" (2003), section 3.1. Clusters are counted, and turned into rows at
    their mean size. None where no number would do, or where the error is not known.
    """
    distance = abs(estimate.value - null)
    if not (distance > 0 and estimate.standard_error >= 0):  # refuses NaN too
        return None
    spread = estimate.standard_error * math.sqrt(estimate.units)
    units = normal_sample_size_one_tail(distance, power, (1 - confidence) / 2, std_null=spread)
    examples = units * rows / estimate.units
    return math.ceil(examples) if examples < _MOST else None
