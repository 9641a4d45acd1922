"""The area under the ROC curve, and DeLong's covariance of several models' areas."""

import dataclasses
import functools
import math
from collections.abc import Iterator

import numpy as np
from scipy import stats

from pipeline.gate.statistics.estimates import Sample, StudentT, mean

METHOD = "DeLong 1988, ranks of Sun & Xu 2014"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Ranks:
    """Areas for unweighted rows that are independent, except for copies of a row.

    E. R. DeLong, D. M. DeLong and D. L. Clarke-Pearson, "Comparing the areas under two or more correlated
    receiver operating characteristic curves" (1988). The parts of an area come from ranks, as in X. Sun and
    W. Xu, "Fast implementation of DeLong's algorithm" (2014). Parts of copies count together, like clusters
    of a mean. The rarer class gives the degrees of freedom: with the normal distribution, and 20 positive
    rows, 3.1% of equal models were promoted instead of 2.5%.
    """

    sample: Sample

    def value(self, model: str) -> StudentT:
        return dataclasses.replace(self._estimate(*self._parts[model]), bounds=(0.0, 1.0))

    def difference(self, model: str, other: str) -> StudentT:
        pairs = zip(self._parts[model], self._parts[other], strict=True)
        return self._estimate(*(one - another for one, another in pairs))

    @functools.cached_property
    def _parts(self) -> dict[str, tuple[np.ndarray, np.ndarray]]:
        """Returns, for each model, the parts of the positive rows, float64 [positives], and of the negative
        ones.
        """
        return {model: parts(scores, self.sample.positive) for model, scores in self.sample.columns.items()}

    @functools.cached_property
    def _copies(self) -> tuple[np.ndarray | None, np.ndarray | None]:
        """Returns the clusters of the positive rows, and of the negative ones; None where there are none."""
        positive = self.sample.positive
        return self.sample.take(positive).clusters, self.sample.take(~positive).clusters

    def _estimate(self, positives: np.ndarray, negatives: np.ndarray) -> StudentT:
        if not (len(positives) and len(negatives)):
            nothing = {"value": math.nan, "standard_error": math.nan, "degrees": 1}
            return StudentT(**nothing, units=self.sample.units, method=METHOD)
        classes = zip((positives, negatives), self._copies, strict=True)
        means = [mean(part, weights=None, clusters=copies) for part, copies in classes]
        return StudentT(
            value=means[0].value,
            standard_error=math.hypot(*(each.standard_error for each in means)),
            units=self.sample.units,
            degrees=min(each.degrees for each in means),
            method=METHOD,
        )


def parts(scores: np.ndarray, positive: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Returns the share of negative rows below each positive row, and of positive rows above each negative.

    Equal scores count half. The mean of either is the area. NaN where there is only one class.
    """
    above, below = scores[positive], scores[~positive]
    with np.errstate(invalid="ignore", divide="ignore"):
        ranks = stats.rankdata(scores)
        of_positives = (ranks[positive] - stats.rankdata(above)) / len(below)
        of_negatives = 1 - (ranks[~positive] - stats.rankdata(below)) / len(above)
    return of_positives, of_negatives


# --- Areas under ROC curves of weighted rows or of rows in clusters: the paired bootstrap.


_LEAST_VALID = 0.99  # this share of the resamples must hold both classes


@dataclasses.dataclass(frozen=True, kw_only=True)
class Resampled:
    """Areas with the paired bootstrap: a resample draws as many units as there are, the same for all models.

    B. Efron and R. J. Tibshirani, "An Introduction to the Bootstrap" (1993), chapters 6 and 13: the standard
    error is the spread of the resampled values. Units are clusters where rows come in clusters: C. A. Field
    and A. H. Welsh, "Bootstrapping clustered data" (2007). Quantiles are those of t, as for means.
    """

    sample: Sample
    resamples: int
    seed: int

    def value(self, model: str) -> StudentT:
        areas = self._areas[model]
        return dataclasses.replace(self._estimate(areas), bounds=(0.0, 1.0))

    def difference(self, model: str, other: str) -> StudentT:
        return self._estimate(self._areas[model] - self._areas[other])

    @functools.cached_property
    def _areas(self) -> dict[str, np.ndarray]:
        """Returns, for each model, the area of all rows, then the areas of the resamples: float64 [1 +
        resamples].
        """
        curves = {model: _Curve.of(scores, self.sample) for model, scores in self.sample.columns.items()}
        areas = [[curve.area(counts) for curve in curves.values()] for counts in self._counts()]
        return dict(zip(curves, np.array(areas).T, strict=True))

    def _counts(self) -> Iterator[np.ndarray]:
        """Yields how often each unit counts, int64 [units]: first once for each, then as often as each
        resample draws it.
        """
        units, rng = self.sample.units, np.random.default_rng(self.seed)
        yield np.ones(units, np.int64)
        for _ in range(self.resamples):
            yield np.bincount(rng.integers(units, size=units), minlength=units)

    def _estimate(self, areas: np.ndarray) -> StudentT:
        value, resampled = float(areas[0]), areas[1:]
        valid = resampled[np.isfinite(resampled)]
        enough = len(valid) > 1 and len(valid) >= _LEAST_VALID * len(resampled)
        unit = "row" if self.sample.clusters is None else "cluster"
        return StudentT(
            value=value,
            standard_error=float(valid.std(ddof=1)) if enough and self.sample.units > 1 else math.nan,
            units=self.sample.units,
            degrees=max(self.sample.units - 1, 1),
            method=f"paired {unit} bootstrap, {len(resampled):,} resamples, seed {self.seed}",
        )


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Class:
    """Rows of one class in the order of their scores: their units, int64 [rows], and their weights."""

    units: np.ndarray
    weights: np.ndarray

    def weigh(self, counts: np.ndarray) -> np.ndarray:
        """Returns the weights, float64 [rows], where `counts` [units] says how often each unit counts."""
        return counts[self.units] * self.weights


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Curve:
    """A ranking, prepared so that resamples need no sorting.

    `less` and `not_more` count, for each row of `positive`, the rows of `negative` with a lower score, and
    those with no higher one; int64 [positives].
    """

    positive: _Class
    negative: _Class
    less: np.ndarray
    not_more: np.ndarray

    @staticmethod
    def of(scores: np.ndarray, sample: Sample) -> "_Curve":
        units = np.arange(sample.rows) if sample.clusters is None else sample.clusters
        weights = np.ones(sample.rows) if sample.weights is None else sample.weights
        order = np.argsort(scores, kind="stable")
        above, below = order[sample.positive[order]], order[~sample.positive[order]]
        return _Curve(
            positive=_Class(units=units[above], weights=weights[above]),
            negative=_Class(units=units[below], weights=weights[below]),
            less=np.searchsorted(scores[below], scores[above], side="left"),
            not_more=np.searchsorted(scores[below], scores[above], side="right"),
        )

    def area(self, counts: np.ndarray) -> float:
        """Returns the area where `counts` [units] says how often each unit counts; NaN for an empty class."""
        positive = self.positive.weigh(counts)
        # Beaten[n] is the weight of the first n rows.
        beaten = np.append(0.0, np.cumsum(self.negative.weigh(counts)))
        pairs = positive.sum() * beaten[-1]
        if not pairs:
            return math.nan
        # Equal scores count half.
        return float(positive @ (beaten[self.less] + beaten[self.not_more])) / (2 * pairs)
