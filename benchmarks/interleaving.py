"""Measurements of two trees in turn, and the table of them."""

import dataclasses
import statistics
import sys
from collections.abc import Callable, Mapping, Sequence

from benchmarks.checkout import Tree

TOLERANCE = 0.05


@dataclasses.dataclass(frozen=True, kw_only=True)
class Measurement:
    """One figure of `benchmarks.input` or `benchmarks.convert`: CPU µs an example, or a row."""

    benchmark: str
    workload: str
    name: str

    @property
    def title(self) -> str:
        return f"{self.benchmark} {self.workload} {self.name}"


READING = {
    "tabular": ("ours_rows", "ours_blocks", "ours_mapped"),
    "images": ("ours_uint8",),
    "tokens": ("ours_rows", "ours_blocks", "ours_mapped"),
}
MEASUREMENTS = (
    *(
        Measurement(benchmark="input", workload=workload, name=name)
        for workload, names in READING.items()
        for name in names
    ),
    Measurement(benchmark="convert", workload="tabular", name="ours_rows"),
    Measurement(benchmark="convert", workload="tabular", name="ours_blocks"),
    Measurement(benchmark="convert", workload="images", name="ours_rows"),
)

Measure = Callable[[Tree, Measurement], float]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Costs:
    """Medians of the rounds, CPU µs an example."""

    before: float
    after: float

    @property
    def ratio(self) -> float:
        return self.after / self.before

    @property
    def within(self) -> bool:
        return abs(self.ratio - 1) <= TOLERANCE

    def __str__(self) -> str:
        return f"{self.before:10.3f}{self.after:10.3f}{self.ratio:8.3f}"


def interleaved(
    measurements: Sequence[Measurement], before: Tree, after: Tree, *, rounds: int, measure: Measure
) -> dict[Measurement, Costs]:
    """Before, after, after, before, …: a change of the machine's load meets both trees."""
    figures: dict[Measurement, list[tuple[float, float]]] = {one: [] for one in measurements}
    for number in range(rounds):
        for one in measurements:
            if number % 2:  # whoever goes second may find caches warm, or the processor hot
                pair = tuple(reversed((measure(after, one), measure(before, one))))
            else:
                pair = measure(before, one), measure(after, one)
            figures[one].append(pair)
            told = f"{pair[0]:.3f} before, {pair[1]:.3f} after"
            print(f"round {number + 1}: {one.title}: {told}", file=sys.stderr, flush=True)
    return {
        one: Costs(
            before=statistics.median(a for a, _ in pairs), after=statistics.median(b for _, b in pairs)
        )
        for one, pairs in figures.items()
    }


def table(first: Mapping[Measurement, Costs], again: Mapping[Measurement, Costs]) -> str:
    """A line a measurement, the second figures beside the first."""
    head = ("before", "after", "ratio")
    columns = "{:>10}{:>10}{:>8}".format(*head)
    lines = [f"{'CPU µs an example':<30}{columns}   {'repeated':<28}  within {TOLERANCE:.0%}"]
    for one, costs in first.items():
        second = str(again.get(one, ""))
        within = "yes" if again.get(one, costs).within else "NO"
        lines.append(f"{one.title:<30}{costs}   {second:<28}  {within}")
    return "\n".join(lines)
