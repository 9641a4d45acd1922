"""How far two computations of the same numbers are apart."""

import dataclasses
from collections.abc import Mapping, Sequence

import numpy as np


@dataclasses.dataclass(frozen=True, kw_only=True)
class Difference:
    """Of one thing, such as a layer's outputs.

    Attributes:
      errors: by what was compared, as `relative_error` gives them.
      tolerances: the most that each may be.
    """

    name: str
    errors: Mapping[str, float]
    tolerances: Mapping[str, float]

    @property
    def excess(self) -> float:
        """The largest error as a multiple of its tolerance; above 1: it differs. NaN counts as infinite."""
        ratios = [self.errors[key] / self.tolerances[key] for key in self.errors]
        return max((ratio if ratio == ratio else np.inf for ratio in ratios), default=0.0)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Comparison:
    """Two ways of computing, compared.

    Attributes:
      name: in two words or so.
      told: what was compared with what.
      differences: the worst first.
      skipped: why there was nothing to compare; empty where there was.
      advice: what to do where they differ.
    """

    name: str
    told: str
    differences: Sequence[Difference] = ()
    skipped: str = ""
    advice: str = ""

    @property
    def found(self) -> Sequence[Difference]:
        """What is further apart than it may be."""
        return [each for each in self.differences if each.excess > 1]


def comparison(name: str, told: str, differences: Sequence[Difference], *, advice: str) -> Comparison:
    """With the differences in their order."""
    ordered = tuple(sorted(differences, key=lambda each: -each.excess))
    return Comparison(name=name, told=told, differences=ordered, advice=advice)


def relative_error(found: np.ndarray, exact: np.ndarray) -> float:
    """‖found − exact‖ / ‖exact‖, Euclidean, in float64, over all elements.

    0 where both are 0 everywhere; infinite where only `exact` is, or where one is not finite.
    """
    one, other = np.asarray(found, np.float64).ravel(), np.asarray(exact, np.float64).ravel()
    if np.array_equal(one, other) and np.isfinite(one).all():
        return 0.0
    with np.errstate(all="ignore"):
        error = np.linalg.norm(one - other) / np.linalg.norm(other)
    return float(error) if np.isfinite(error) else np.inf
