"""The results of a search: a table on the terminal, and a page with a dot for each trial. No test numbers."""

import dataclasses
import math
from collections.abc import Iterator, Mapping, Sequence

from pipeline.report import formats, terminal
from pipeline.report.charts import Dots, Series, dot_chart, line_chart
from pipeline.report.section import Cell, Facts, Figure, Note, Section, Table
from pipeline.training.launch.space import Range, Space
from pipeline.training.launch.sweep import Row

_SHOWN = 10  # trials of the table on the terminal


@dataclasses.dataclass(frozen=True, kw_only=True)
class Outcome:
    """What became of a trial.

    Attributes:
      values: the text after `--config.KEY=`, by key.
      params: the values as they were chosen, before they were rounded.
      reports: (percent of the steps, validation) of each evaluation that was compared with other trials.
      numbers: metrics of the validation by name; a trial that was ended early has only its last one.
      seconds: wall time of training.
      value: the number by which trials are compared; NaN if the trial did not come to its end.
      ended_at: percent of the steps after which it was ended, as other trials were better; 0: it was not.
      failed: the reason why there are no numbers; empty if there are.
    """

    name: str
    values: Mapping[str, str]
    params: Mapping[str, object]
    reports: Sequence[tuple[int, float]] = ()
    numbers: Mapping[str, float] = dataclasses.field(default_factory=dict)
    seconds: float = 0.0
    value: float = math.nan
    ended_at: int = 0
    failed: str = ""

    @property
    def row(self) -> Row:
        """Its line in sweep.csv."""
        ended = f"ended at {self.ended_at}% of its steps" if self.ended_at else ""
        return Row(
            values=self.values, numbers=self.numbers, seconds=self.seconds, failed=self.failed or ended
        )

    def record(self) -> dict:
        """The line that brings the outcome back."""
        return dataclasses.asdict(dataclasses.replace(self, numbers=dict(self.numbers)))

    @classmethod
    def of_record(cls, record: Mapping) -> "Outcome":
        named = {field.name: record[field.name] for field in dataclasses.fields(cls)}
        value = math.nan if named["value"] is None else named["value"]
        return cls(**named | {"value": value, "reports": tuple(map(tuple, named["reports"]))})


def best(outcomes: Sequence[Outcome], sign: int) -> Outcome | None:
    """The trial with the best value, or the least loss among equals; None if none came to its end."""
    return min(_finished(outcomes), key=lambda each: _place(each, sign), default=None)


def result(outcome: Outcome, number: str) -> str:
    """The outcome in a few words."""
    if outcome.failed:
        return f"failed: {outcome.failed}"
    if outcome.ended_at:
        return f"{number} {_last(outcome, number)} at {outcome.ended_at}% of its steps, ended there"
    return "  ".join(f"{name} {formats.number(value)}" for name, value in outcome.numbers.items())


def table_lines(outcomes: Sequence[Outcome], *, number: str, sign: int) -> list[str]:
    """The best trials, one a line, and how many there are besides."""
    ranked = _ranked(outcomes, sign)
    keys = list(outcomes[0].values)
    rows = [
        [each.name, *(each.values[key] for key in keys), *_numbers(each, number)] for each in ranked[:_SHOWN]
    ]
    more = len(ranked) - _SHOWN
    lines = terminal.aligned([["", *keys, number, ""], *rows])
    return [*lines, f"… and {more} more"] if more > 0 else lines


def sections(
    outcomes: Sequence[Outcome], *, space: Space, number: str, sign: int
) -> tuple[Section, Sequence[Section]]:
    """The page: what was found; how it went on; a chart for each key; all trials."""
    found = best(outcomes, sign)
    finished = list(_finished(outcomes))
    ended = sum(bool(each.ended_at) for each in outcomes)
    failed = sum(bool(each.failed) for each in outcomes)
    facts = Facts(
        items={
            "trials": f"{len(outcomes)}: {len(finished)} to their end, {ended} ended early, {failed} failed",
            f"best {number}": f"{formats.number(found.value)}, {found.name}",
            **{f"its {key}": value for key, value in found.values.items()},
        }
    )
    head = Section(title="Search", parts=[facts, Note(text=_caution(number))])
    keys = [_chart(key, part, finished, number=number, best=found) for key, part in space.items()]
    drawn = Section(title="Where the good ones are", parts=[*filter(None, keys)])
    return head, [
        Section(title="How it went on", parts=[_progress(finished, number, sign)]),
        drawn,
        _all(outcomes, number, sign),
    ]


def _caution(number: str) -> str:
    return (
        f"All choices are by {number}, the validation. The best of many trials is better there than it will "
        "be on other data; the final evaluation of the best trial, in its own report, took no part."
    )


def _finished(outcomes: Sequence[Outcome]) -> Iterator[Outcome]:
    return (each for each in outcomes if math.isfinite(each.value))


def _ranked(outcomes: Sequence[Outcome], sign: int) -> list[Outcome]:
    """The best first; then those that were ended, the later the better; then the failed ones."""

    def place(each: Outcome) -> tuple:
        return (bool(each.failed), each.ended_at > 0, -each.ended_at, *_place(each, sign))

    return sorted(outcomes, key=place)


def _place(outcome: Outcome, sign: int) -> tuple[float, float]:
    """The key that sorts trials, the best first."""
    if math.isfinite(outcome.value):
        return sign * outcome.value, outcome.numbers.get("val_loss", 0.0)
    return sign * outcome.reports[-1][1] if outcome.reports else 0.0, 0.0


def _numbers(outcome: Outcome, number: str) -> tuple[str, str]:
    if outcome.failed:
        return "–", f"failed: {outcome.failed}"
    if outcome.ended_at:
        return _last(outcome, number), f"ended at {outcome.ended_at}%"
    return formats.number(outcome.value), ""


def _last(outcome: Outcome, number: str) -> str:
    return formats.number(outcome.numbers.get(number))


def _progress(finished: Sequence[Outcome], number: str, sign: int) -> Figure | None:
    """The best value so far, over the number of trials."""
    numbers = [int(each.name.rpartition("-")[2]) for each in finished]
    so_far = [best(finished[: at + 1], sign).value for at in range(len(finished))]
    return line_chart(
        f"best {number} so far", [Series(name="best", xs=numbers, ys=so_far, dots=True)], x_title="trial"
    )


def _chart(
    key: str, part: Range | Sequence[str], finished: Sequence[Outcome], *, number: str, best: Outcome
) -> Figure:
    if isinstance(part, Range):
        xs, names = [float(each.values[key]) for each in finished], ()
    else:
        xs, names = [float(part.index(each.values[key])) for each in finished], tuple(part)
    dots = Dots(xs=xs, ys=[each.value for each in finished], marked=finished.index(best))
    is_log = isinstance(part, Range) and part.is_log
    return dot_chart(f"{number} by {key}", dots, x_title=key, y_title=number, is_log=is_log, names=names)


def _all(outcomes: Sequence[Outcome], number: str, sign: int) -> Section:
    keys = list(outcomes[0].values)
    rows = [
        [
            Cell(text=each.name, link=f"{each.name}/report.html" if math.isfinite(each.value) else None),
            *(each.values[key] for key in keys),
            *_numbers(each, number),
            formats.duration(each.seconds),
        ]
        for each in _ranked(outcomes, sign)
    ]
    header = ["trial", *keys, number, "", "training"]
    return Section(title="All trials", parts=[Table(header=header, rows=rows, open_rows=20, more="trials")])
