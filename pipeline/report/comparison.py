"""Compares two computations of the same numbers: rows, arrays, or many arrays, of which it names the
worst.
"""

import dataclasses
from collections.abc import Mapping, Sequence

import numpy as np

from pipeline.report.section import Section


@dataclasses.dataclass(frozen=True, kw_only=True)
class Difference:
    """The difference of one thing, such as a layer's outputs.

    Attributes:
      errors: errors by the name of what was compared, as `relative_error` gives them.
      tolerances: the largest allowed value of each error.
    """

    name: str
    errors: Mapping[str, float]
    tolerances: Mapping[str, float]

    @property
    def excess(self) -> float:
        """The largest error as a multiple of its tolerance; above 1, the two differ. NaN counts as
        infinite.
        """
        ratios = [self.errors[key] / self.tolerances[key] for key in self.errors]
        return max((ratio if ratio == ratio else np.inf for ratio in ratios), default=0.0)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Comparison:
    """Two ways of computing, compared.

    Attributes:
      name: a name of about two words.
      what: the two computations that were compared.
      differences: the worst first.
      skipped: the reason why nothing was compared; empty where something was.
      advice: what to do where they differ.
    """

    name: str
    what: str
    differences: Sequence[Difference] = ()
    skipped: str = ""
    advice: str = ""

    @property
    def found(self) -> Sequence[Difference]:
        """The differences that are larger than allowed."""
        return [each for each in self.differences if each.excess > 1]


def comparison(name: str, what: str, differences: Sequence[Difference], *, advice: str) -> Comparison:
    """Returns a comparison with its differences in order, the worst first."""
    ordered = tuple(sorted(differences, key=lambda each: -each.excess))
    return Comparison(name=name, what=what, differences=ordered, advice=advice)


def relative_error(found: np.ndarray, exact: np.ndarray) -> float:
    """‖found − exact‖ / ‖exact‖, Euclidean, in float64, over all elements.

    It is 0 if both are 0 everywhere; infinite if only `exact` is 0, or if one of them is not finite.
    """
    one, other = np.asarray(found, np.float64).ravel(), np.asarray(exact, np.float64).ravel()
    if np.array_equal(one, other) and np.isfinite(one).all():
        return 0.0
    with np.errstate(all="ignore"):
        error = np.linalg.norm(one - other) / np.linalg.norm(other)
    return float(error) if np.isfinite(error) else np.inf


def largest_difference(found: np.ndarray, expected: np.ndarray) -> float:
    """Returns the largest |found − expected| in float64; 0 for empty arrays, NaN if one of them holds NaN."""
    return float(np.max(np.abs(np.asarray(found, np.float64) - expected), initial=0.0))


def differing_rows(
    found: np.ndarray, expected: np.ndarray, *, allowed: np.ndarray | float | None = None
) -> np.ndarray:
    """Returns the rows that differ, bool [n]; all rows if the shapes differ.

    Args:
      found, expected: [n, …].
      allowed: the largest |found − expected|, for all or for each element; None: every bit must be the same,
        and so must the type. Text must be the same.
    """
    is_like = found.shape == expected.shape and (allowed is not None or found.dtype == expected.dtype)
    if not is_like:
        return np.ones(len(expected), bool)
    if expected.dtype.hasobject:  # text
        differs = found != expected
    elif allowed is None:
        one, other = (each.view(f"u{each.itemsize}") for each in (found, expected))
        differs = one != other
    else:
        differs = ~(np.abs(found.astype(np.float64) - expected) <= allowed)
    return differs.any(axis=tuple(range(1, differs.ndim)))


@dataclasses.dataclass(kw_only=True)
class Agreement:
    """Counts the rows in which two computations differ, batch by batch; `worst` is the largest difference."""

    rows: int = 0
    differing: int = 0
    worst: float = 0.0

    def add(
        self, found: np.ndarray, expected: np.ndarray, *, allowed: np.ndarray | float | None = None
    ) -> None:
        """Adds a batch; see `differing_rows`."""
        self.rows += len(expected)
        self.differing += int(differing_rows(found, expected, allowed=allowed).sum())
        self.worst = max(self.worst, largest_difference(found, expected))


# --- Comparisons as sections for a terminal, and as JSON.


_MOST = 5  # values that agree and are shown; all values that differ are shown


def section(comparison: Comparison) -> Section:
    """The comparison as a section: all values that differ, and the worst of those that agree."""
    if comparison.skipped:
        return Section(title=f"{comparison.name:<14} not compared: {comparison.skipped}")
    found = comparison.found
    listed = comparison.differences[: max(_MOST, len(found))]
    left = len(comparison.differences) - len(listed)
    return Section(
        title=f"{comparison.name:<14} {'DIFFERS' if found else 'agrees'}: {comparison.what}",
        parts=[
            *(f"{'!' if each.excess > 1 else ' '} {each.name}: {_errors(each)}" for each in listed),
            f"  … and {left} that differ less" if left else None,
            comparison.advice if found else None,
        ],
    )


def format_verdict(comparisons: Sequence[Comparison]) -> str:
    differing = [each.name for each in comparisons if each.found]
    compared = [each.name for each in comparisons if not each.skipped]
    skipped = [each.name for each in comparisons if each.skipped]
    if not differing:
        agreeing = f"all agree ({', '.join(compared)})" if compared else "none"
        left_out = f"; not compared: {', '.join(skipped)}" if skipped else ""
        return f"verdict: {agreeing}{left_out}"
    worst = max((each.found[0] for each in comparisons if each.found), key=lambda each: each.excess)
    return (
        f"verdict: {', '.join(differing)} differ{'s' if len(differing) == 1 else ''}; the worst: {worst.name}"
    )


def as_json(comparisons: Sequence[Comparison]) -> dict:
    return {
        "verdict": format_verdict(comparisons),
        "comparisons": [
            {
                "name": each.name,
                "compared": each.what,
                "skipped": each.skipped,
                "differs": bool(each.found),
                "differences": [
                    {"name": one.name, "errors": dict(one.errors), "tolerances": dict(one.tolerances)}
                    for one in each.differences
                ],
            }
            for each in comparisons
        ],
    }


def _errors(difference: Difference) -> str:
    return ", ".join(
        f"{key} {error:.2g} (at most {difference.tolerances[key]:.2g})"
        for key, error in difference.errors.items()
    )
