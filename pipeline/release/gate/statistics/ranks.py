"""The area under the ROC curve, and DeLong's covariance of several models' areas."""

import dataclasses
import functools
import math

import numpy as np
from scipy import stats

from pipeline.release.gate.statistics.estimates import StudentT
from pipeline.release.gate.statistics.sample import Sample

METHOD = "DeLong 1988, ranks of Sun & Xu 2014"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Ranks:
    """Areas where every row counts the same and stands alone.

    E. R. DeLong, D. M. DeLong and D. L. Clarke-Pearson, "Comparing the areas under two or more correlated
    receiver operating characteristic curves" (1988). The parts of an area come from ranks, as in X. Sun and
    W. Xu, "Fast implementation of DeLong's algorithm" (2014).
    """

    sample: Sample

    def value(self, model: str) -> StudentT:
        return dataclasses.replace(self._estimate(*self._parts[model]), bounds=(0.0, 1.0))

    def difference(self, model: str, other: str) -> StudentT:
        """`model` less `other`."""
        pairs = zip(self._parts[model], self._parts[other], strict=True)
        return self._estimate(*(one - another for one, another in pairs))

    @functools.cached_property
    def _parts(self) -> dict[str, tuple[np.ndarray, np.ndarray]]:
        """Of each model the part of each positive, float64 [positives], and of each negative row."""
        return {model: parts(scores, self.sample.positive) for model, scores in self.sample.columns.items()}

    def _estimate(self, positives: np.ndarray, negatives: np.ndarray) -> StudentT:
        error = math.nan
        if len(positives) > 1 and len(negatives) > 1:
            error = math.sqrt(sum(part.var(ddof=1) / len(part) for part in (positives, negatives)))
        return StudentT(
            value=float(positives.mean()) if len(positives) and len(negatives) else math.nan,
            standard_error=error,
            units=self.sample.rows,
            degrees=math.inf,
            method=METHOD,
        )


def parts(scores: np.ndarray, positive: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Of each positive row the share of negative ones below it, of each negative that of positives above it.

    Equal scores count half. The mean of either is the area. NaN where one class alone is there.
    """
    above, below = scores[positive], scores[~positive]
    with np.errstate(invalid="ignore", divide="ignore"):
        ranks = stats.rankdata(scores)
        of_positives = (ranks[positive] - stats.rankdata(above)) / len(below)
        of_negatives = 1 - (ranks[~positive] - stats.rankdata(below)) / len(above)
    return of_positives, of_negatives
