"""What the runs of a sweep came to: a table on the terminal, the best first, and sweep.csv."""

import csv
import dataclasses
import io
import itertools
import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from pipeline.data.schema.kinds import Label

if TYPE_CHECKING:
    from pipeline.training.tasks.task import Metric

SEED = "seed"  # the key of the config over whose values a mean is taken


@dataclasses.dataclass(frozen=True, kw_only=True)
class Row:
    """One run.

    Attributes:
      values: by key of the config, as they were asked for.
      numbers: by name, such as val_auc; none where the run failed.
      seconds: wall time of training.
      failed: why there are no numbers; empty where the run is finished.
    """

    values: Mapping[str, str]
    numbers: Mapping[str, float] = dataclasses.field(default_factory=dict)
    seconds: float = 0.0
    failed: str = ""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Summary:
    """Runs that differ in their seed alone.

    Attributes:
      means, deviations: by name; the deviation is that of a sample (n - 1), 0 where there is one run, NaN
        where a number is not finite.
    """

    values: Mapping[str, str]
    runs: int
    means: Mapping[str, float]
    deviations: Mapping[str, float]
    failed: str


def csv_text(rows: Sequence[Row]) -> str:
    """A line a run: its values, its numbers, the seconds of training, and why it failed."""
    keys, names = _union(row.values for row in rows), _union(row.numbers for row in rows)
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([*(f"config.{key}" for key in keys), *names, "seconds", "failed"])
    for row in rows:
        values = [row.values[key] for key in keys]
        writer.writerow([*values, *(row.numbers.get(name, "") for name in names), row.seconds, row.failed])
    return text.getvalue()


def ranked(rows: Sequence[Row], label: Label) -> tuple[Summary, ...]:
    """Runs that differ in their seed brought together; the best by the validation first, failed ones last.

    Just before the failed ones come those whose number is NaN, or is not there.
    """
    name, sign = _ranking(label)

    def place(summary: Summary) -> tuple[bool, bool, float]:
        mean = summary.means.get(name, math.nan)
        return bool(summary.failed), math.isnan(mean), 0.0 if math.isnan(mean) else sign * mean

    return tuple(sorted(_summaries(rows), key=place))


def lines(summaries: Sequence[Summary], label: Label) -> list[str]:
    """The table, with a header."""
    keys = _union(summary.values for summary in summaries)
    told = tuple(f"_{metric.key}" for metric in _metrics(label))
    names = [name for name in _union(summary.means for summary in summaries) if name.endswith(told)]
    has_seeds = any(summary.runs > 1 for summary in summaries)
    header = [*keys, *(["runs"] if has_seeds else []), *names]
    cells = [
        [
            *(summary.values[key] for key in keys),
            *([str(summary.runs)] if has_seeds else []),
            *([summary.failed] if summary.failed else (_cell(summary, name) for name in names)),
        ]
        for summary in summaries
    ]
    return _aligned([header, *cells])


def _ranking(label: Label) -> tuple[str, int]:
    """The number to compare by, and -1 where more is better, else 1."""
    metric = _metrics(label)[0]
    return f"val_{metric.key}", -1 if metric.is_higher_better else 1


def _metrics(label: Label) -> "tuple[Metric, ...]":
    # Imported here: the runs have ended, and seconds no longer count.
    from pipeline.data import quiet  # noqa: F401 - before TensorFlow
    from pipeline.training.tasks.registry import task_of

    return task_of(label).metrics


def _summaries(rows: Sequence[Row]) -> list[Summary]:
    groups: dict[tuple, list[Row]] = {}
    for row in rows:
        values = {key: value for key, value in row.values.items() if key != SEED}
        groups.setdefault(tuple(values.items()), []).append(row)
    return [_summary(dict(values), group) for values, group in groups.items()]


def _summary(values: Mapping[str, str], group: Sequence[Row]) -> Summary:
    done = [row.numbers for row in group if not row.failed]
    failed = next((row.failed for row in group if row.failed), "")
    names = [name for name in _union(done) if all(name in numbers for numbers in done)]
    columns = {name: [numbers[name] for numbers in done] for name in names}
    return Summary(
        values=values,
        runs=len(done),
        means={name: statistics.fmean(column) for name, column in columns.items()} if not failed else {},
        deviations={name: _deviation(column) for name, column in columns.items()},
        failed=failed,
    )


def _deviation(column: Sequence[float]) -> float:
    # Python's stdev raises AttributeError where a number is not finite (3.11, measured).
    if not all(map(math.isfinite, column)):
        return math.nan
    return statistics.stdev(column) if len(column) > 1 else 0.0


def _cell(summary: Summary, name: str) -> str:
    if name not in summary.means:
        return "–"
    mean = _number(summary.means[name])
    deviation = summary.deviations[name]
    return f"{mean} ± {_number(deviation)}" if summary.runs > 1 and math.isfinite(deviation) else mean


def _number(value: float) -> str:
    """Four decimals; six digits of what they do not tell, or tell too long: 0.9000 100530 5e-07."""
    return f"{value:.4f}" if not value or 0.001 <= abs(value) < 1_000 else f"{value:.6g}"


def _union(mappings: Iterable[Mapping[str, object]]) -> tuple[str, ...]:
    """All keys, in the order in which they come up."""
    return tuple(dict.fromkeys(key for mapping in mappings for key in mapping))


def _aligned(table: Sequence[Sequence[str]]) -> list[str]:
    """The rows with their cells below each other; a reason in place of numbers may stick out."""
    full = [row for row in table if len(row) == len(table[0])]
    widths = [max(map(len, column)) for column in zip(*full, strict=True)]
    return [
        "  ".join(map(_padded, row, itertools.chain(widths, itertools.repeat(0)))).rstrip() for row in table
    ]


def _padded(cell: str, width: int) -> str:
    return cell.ljust(width)
