"""What is compared where a window is read, and whether it costs too much."""

import dataclasses
import statistics
from collections.abc import Mapping, Sequence

MOST = 1.1  # times the CPU of one dataset


@dataclasses.dataclass(frozen=True, kw_only=True)
class Case:
    """One order of one layout."""

    layout: str
    order: str  # "stored", as evaluation reads; or that of config.shuffle

    def __str__(self) -> str:
        return f"{self.layout}, {self.order}"


CASES = (
    Case(layout="rows", order="stored"),
    Case(layout="rows", order="windows"),
    Case(layout="blocks", order="stored"),
    Case(layout="blocks", order="windows"),
    Case(layout="blocks", order="global"),
)
Costs = Sequence[tuple[float, float]]  # of one dataset and of the window, CPU µs a row: of each round


def verdict(costs: Mapping[Case, Costs]) -> tuple[str, bool]:
    """A table, and whether no window costs more than MOST times as much."""
    lines = [f"{'CPU µs a row':<20}{'one dataset':>12}{'window':>12}{'ratio':>8}"]
    ratios = []
    for case, rounds in costs.items():
        one, many, ratio = map(statistics.median, zip(*((a, b, b / a) for a, b in rounds), strict=True))
        lines.append(f"{case!s:<20}{one:12.3f}{many:12.3f}{ratio:8.3f}")
        ratios.append(ratio)
    return "\n".join([*lines, f"highest ratio {max(ratios):.3f}, at most {MOST}"]), max(ratios) <= MOST
