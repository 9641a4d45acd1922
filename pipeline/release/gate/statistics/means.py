"""Means over examples, with weights and clusters: losses, errors, and shares of right answers."""

import dataclasses
import math

import numpy as np

from pipeline.release.gate.statistics.estimates import StudentT
from pipeline.release.gate.statistics.sample import Sample

PLAIN = "Student's t"
WEIGHTED = "Student's t, robust (HC1: White 1980)"
CLUSTERED = "Student's t, cluster-robust (Liang & Zeger 1986)"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Means:
    """The metric of a model is the weighted mean of its column, that of two the mean of the differences."""

    sample: Sample
    bounds: tuple[float, float] = (-math.inf, math.inf)

    def value(self, model: str) -> StudentT:
        return dataclasses.replace(self._mean(self.sample.columns[model]), bounds=self.bounds)

    def difference(self, model: str, other: str) -> StudentT:
        """`model` less `other`, pair by pair."""
        return self._mean(self.sample.columns[model] - self.sample.columns[other])

    def _mean(self, numbers: np.ndarray) -> StudentT:
        return mean(numbers, weights=self.sample.weights, clusters=self.sample.clusters)


def mean(numbers: np.ndarray, *, weights: np.ndarray | None, clusters: np.ndarray | None) -> StudentT:
    """The weighted mean of float64 [n], as a regression on a constant estimates it.

    Its variance is the sandwich of K.-Y. Liang and S. L. Zeger, "Longitudinal data analysis using generalized
    linear models" (1986): the squares of the clusters' weighted residual sums, over the square of the sum of
    weights, times G / (G - 1), where G counts the clusters. A row without a cluster is one by itself: without
    weights that is the usual standard error of a mean. Quantiles are of t with G - 1 degrees of freedom:
    A. C. Cameron and D. L. Miller, "A Practitioner's Guide to Cluster-Robust Inference" (2015), section VI.
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
        method=CLUSTERED if clusters is not None else WEIGHTED if weights is not None else PLAIN,
    )
