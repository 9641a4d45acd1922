"""Areas under ROC curves of weighted rows or of rows in clusters: the paired bootstrap."""

import dataclasses
import functools
import math
from collections.abc import Iterator

import numpy as np

from pipeline.release.gate.statistics.estimates import StudentT
from pipeline.release.gate.statistics.sample import Sample

_NUMBERS_AT_ONCE = 1 << 22  # of a chunk of resamples, 32 MiB as float64
_LEAST_VALID = 0.99  # of the resamples must hold both classes


@dataclasses.dataclass(frozen=True, kw_only=True)
class Resampled:
    """Each resample draws as many units as there are, with replacement, the same ones for all models.

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
        """`model` less `other`, resample by resample."""
        return self._estimate(self._areas[model] - self._areas[other])

    @functools.cached_property
    def _areas(self) -> dict[str, np.ndarray]:
        """Of each model the area of all rows, then that of each resample: float64 [1 + resamples]."""
        curves = {model: _Curve.of(scores, self.sample) for model, scores in self.sample.columns.items()}
        chunks = [
            {model: curve.areas(weights) for model, curve in curves.items()}
            for weights in self._row_weights()
        ]
        return {model: np.concatenate([chunk[model] for chunk in chunks]) for model in curves}

    def _row_weights(self) -> Iterator[np.ndarray]:
        """The rows' own weights, [1, n], then those in the resamples, [some, n]."""
        sample, rng = self.sample, np.random.default_rng(self.seed)
        own = np.ones(sample.rows) if sample.weights is None else sample.weights
        yield own[None]
        at_once = max(1, _NUMBERS_AT_ONCE // sample.rows)
        for first in range(0, self.resamples, at_once):
            some = min(at_once, self.resamples - first)
            counts = np.stack([_counts(rng, sample.units) for _ in range(some)])
            yield own * (counts if sample.clusters is None else counts[:, sample.clusters])

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
class _Curve:
    """Rows in the order of their scores, so that each resample needs no sorting.

    `order` int64 [n]; `starts`: where each run of equal scores begins in it; `positive` bool [n], in order.
    """

    order: np.ndarray
    starts: np.ndarray
    positive: np.ndarray

    @staticmethod
    def of(scores: np.ndarray, sample: Sample) -> "_Curve":
        order = np.argsort(scores, kind="stable")
        starts = np.flatnonzero(np.append(True, np.diff(scores[order]) != 0))
        return _Curve(order=order, starts=starts, positive=sample.positive[order])

    def areas(self, weights: np.ndarray) -> np.ndarray:
        """Of rows weighted by float64 [some, n]: float64 [some]; NaN where a class weighs nothing."""
        sorted_weights = weights[:, self.order]
        positive = np.add.reduceat(sorted_weights * self.positive, self.starts, axis=1)
        negative = np.add.reduceat(sorted_weights * ~self.positive, self.starts, axis=1)
        below = np.cumsum(negative, axis=1) - negative / 2  # equal scores count half
        with np.errstate(invalid="ignore", divide="ignore"):
            return (positive * below).sum(axis=1) / (positive.sum(axis=1) * negative.sum(axis=1))


def _counts(rng: np.random.Generator, units: int) -> np.ndarray:
    """How often each unit is drawn: int64 [units]."""
    return np.bincount(rng.integers(units, size=units), minlength=units)
