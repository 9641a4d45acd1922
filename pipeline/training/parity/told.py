"""Comparisons as lines on a terminal, and as JSON."""

from collections.abc import Sequence

from pipeline.training.parity.compared import Comparison, Difference

_MOST = 5  # that are told of what agrees; all that differs is


def lines(comparison: Comparison) -> list[str]:
    """The comparison, what differs and the worst of what agrees."""
    if comparison.skipped:
        return [f"{comparison.name:<14} not compared: {comparison.skipped}"]
    found = comparison.found
    head = f"{comparison.name:<14} {'DIFFERS' if found else 'agrees'}: {comparison.told}"
    shown = comparison.differences[: max(_MOST, len(found))]
    left = len(comparison.differences) - len(shown)
    return [
        head,
        *(f"  {_mark(each)} {each.name}: {_errors(each)}" for each in shown),
        *([f"    … and {left} that differ less"] if left else []),
        *([f"  {comparison.advice}"] if found else []),
    ]


def verdict(comparisons: Sequence[Comparison]) -> str:
    """One line on all of them."""
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
    """Every error with its tolerance."""
    return {
        "verdict": verdict(comparisons),
        "comparisons": [
            {
                "name": each.name,
                "compared": each.told,
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


def _mark(difference: Difference) -> str:
    return "!" if difference.excess > 1 else " "


def _errors(difference: Difference) -> str:
    return ", ".join(
        f"{key} {error:.2g} (at most {difference.tolerances[key]:.2g})"
        for key, error in difference.errors.items()
    )
