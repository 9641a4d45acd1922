"""Runs a sweep: runs each trial that is missing, one after another; then shows the results."""

import contextlib
import csv
import dataclasses
import io
import math
import pathlib
import statistics
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from typing import TYPE_CHECKING

from tqdm import tqdm

from pipeline.base import files
from pipeline.base.cli.signals import Deferred, Interrupted
from pipeline.base.errors import InputError
from pipeline.data.dataset.manifest import Dataset
from pipeline.data.dataset.window import open_window
from pipeline.data.schema.feature_types import Label
from pipeline.report import terminal
from pipeline.training.launch import child
from pipeline.training.launch.grid import SEED, Point, check_given_once
from pipeline.training.state import run_record, workdir
from pipeline.training.state.workdir import Workdir

# --- One run: a process of its own, which writes to a log beside the run's working directory.


@dataclasses.dataclass(frozen=True, kw_only=True)
class Trial:
    """A run of a sweep, done or not.

    Attributes:
      workdir: the run's working directory.
      config: the config in this run's run.json.
      warm_start: working directory of the run whose weights are its first weights; None: it begins from
        scratch.
    """

    point: Point
    workdir: Workdir
    config: Mapping
    warm_start: pathlib.Path | None = None

    @property
    def log(self) -> pathlib.Path:
        return self.workdir.path.with_name(f"{self.workdir.path.name}.log")

    def is_finished(self, *, dataset_digest: str) -> bool:
        """Returns whether the run exists and is finished, with this config and these datasets."""
        record = run_record.read(self.workdir.run)
        return bool(
            record
            and record.finished
            and record.dataset_digest == dataset_digest
            and self._has_mixture(record.mixture_digests)
            and record.warm_start.get("workdir", "") == str(self.warm_start or "")
            and record.config == self.config
            and self.workdir.evaluation.exists()
        )

    def _has_mixture(self, digests: Sequence[str]) -> bool:
        """Returns whether the mixture has datasets with these digests; the run itself reports one that cannot
        be opened.
        """
        with contextlib.suppress(InputError):
            opened = (open_window([directory]) for directory, *_ in self.config["mixture"])
            return [each.manifest.digest for each in opened] == list(digests)
        return False

    def train(
        self,
        command: Sequence[str],
        *,
        came: Callable[[], int],
        is_enough: Callable[[], bool] = lambda: False,
    ) -> int:
        """Trains to the end, from the last checkpoint if there is one; returns the exit code, 0 where all is
        well.

        A signal to this process is passed on, and the run saves before it ends. If this process is killed, so
        is the run; the next command continues from its last checkpoint.

        Args:
          command: the command of the sweep, as arguments of `python -m`.
          came: function () → number of the signal that this process was sent, or 0.
          is_enough: function () → whether the run shall save what it has and end.
        """
        own = (f"--workdir={self.workdir.path}", *self.point.flags)
        names = {"sweep", "trials", "json", *(flag.lstrip("-").partition("=")[0] for flag in own)}
        arguments = (*_without(command, names), *own)
        return child.run(arguments, log=self.log, came=came, is_enough=is_enough)

    def numbers(self) -> dict[str, float]:
        """Metrics of the validation, as `val_NAME`, and, of the same weights, final ones, as `SPLIT_NAME`."""
        final = workdir.read_json(self.workdir.evaluation) or {}
        points = [point for point in workdir.read_history(self.workdir.history) if "validation" in point]
        kept = [point for point in points if point["step"] == final.get("step")]
        named = workdir.numbers((kept or points)[-1]["validation"], prefix="val_") if points else {}
        split = str(final.get("split", "")).replace("/", "_")
        return named | workdir.numbers(final, prefix=f"{split}_")

    def seconds(self) -> float:
        """Wall time of training, over all processes of the run."""
        return run_record.read(self.workdir.run).seconds


def _without(command: Sequence[str], names: Set[str]) -> Iterator[str]:
    """Yields a command without some of its flags: a flag that is given twice would end it."""
    arguments = iter(command)
    for argument in arguments:
        name, equals, _ = argument.lstrip("-").partition("=")
        if not argument.startswith("-") or name not in names:
            yield argument
        elif not equals:
            next(arguments, None)  # skips the value of `--sweep VALUE`


# --- The results: a table on the terminal, the best first, and sweep.csv.


if TYPE_CHECKING:
    from pipeline.training.tasks.task import Metric


@dataclasses.dataclass(frozen=True, kw_only=True)
class Row:
    """One run of a sweep.

    Attributes:
      values: requested values by key of the config.
      numbers: metrics by name, such as val_auc; empty if the run failed.
      seconds: wall time of training.
      failed: the reason why there are no numbers; empty if the run is finished.
    """

    values: Mapping[str, str]
    numbers: Mapping[str, float] = dataclasses.field(default_factory=dict)
    seconds: float = 0.0
    failed: str = ""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Summary:
    """Runs that differ only in their seed.

    Attributes:
      means, deviations: values by name; the deviation is that of a sample (n - 1), 0 for a single run, NaN if
        a number is not finite.
    """

    values: Mapping[str, str]
    runs: int
    means: Mapping[str, float]
    deviations: Mapping[str, float]
    failed: str


def csv_text(rows: Sequence[Row]) -> str:
    """A line for each run: its values, its numbers, the seconds of training, and why it failed."""
    keys, names = _union(row.values for row in rows), _union(row.numbers for row in rows)
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([*(f"config.{key}" for key in keys), *names, "seconds", "failed"])
    for row in rows:
        values = [row.values[key] for key in keys]
        writer.writerow([*values, *(row.numbers.get(name, "") for name in names), row.seconds, row.failed])
    return text.getvalue()


def ranked_trials(rows: Sequence[Row], label: Label) -> tuple[Summary, ...]:
    """Puts runs that differ in their seed together; the best by the validation comes first, failed ones last.

    Runs whose number is NaN or missing come just before the failed ones.
    """
    name, sign = ranking(label)

    def place(summary: Summary) -> tuple[bool, bool, float]:
        mean = summary.means.get(name, math.nan)
        return bool(summary.failed), math.isnan(mean), 0.0 if math.isnan(mean) else sign * mean

    return tuple(sorted(_summaries(rows), key=place))


def table_lines(summaries: Sequence[Summary], label: Label) -> list[str]:
    keys = _union(summary.values for summary in summaries)
    endings = tuple(f"_{metric.key}" for metric in _metrics(label))
    names = [name for name in _union(summary.means for summary in summaries) if name.endswith(endings)]
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
    return terminal.aligned([header, *cells])


def ranking(label: Label) -> tuple[str, int]:
    """Returns the number by which runs are compared, and -1 if more is better, else 1."""
    metric = _metrics(label)[0]
    return f"val_{metric.key}", -1 if metric.is_higher_better else 1


def _metrics(label: Label) -> "tuple[Metric, ...]":
    # Imported here, because seconds no longer count after the runs have ended.
    from pipeline.base import tensorflow_start  # noqa: F401 - before TensorFlow
    from pipeline.training.tasks.registry import task_of

    return task_of(label).metrics_of(label)


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
    mean = number(summary.means[name])
    deviation = summary.deviations[name]
    return f"{mean} ± {number(deviation)}" if summary.runs > 1 and math.isfinite(deviation) else mean


def number(value: float) -> str:
    """Formats with four decimals; very large or small numbers with six digits: 0.9000 100530 5e-07."""
    return f"{value:.4f}" if not value or 0.001 <= abs(value) < 1_000 else f"{value:.6g}"


def _union(mappings: Iterable[Mapping[str, object]]) -> tuple[str, ...]:
    """All keys, in the order in which they first occur."""
    return tuple(dict.fromkeys(key for mapping in mappings for key in mapping))


TABLE = "sweep.csv"


def run(
    points: Sequence[Point],
    *,
    config_of: Callable[[Point], Mapping],
    dataset: Dataset,
    root: pathlib.Path,
    command: Sequence[str],
    warm_start: pathlib.Path | None = None,
) -> None:
    """Trains at each point, in directories below `root`; prints the table, and writes sweep.csv there.

    Repeating it trains what is missing or unfinished. A run that fails does not end the others.

    Args:
      config_of: function from a point to the config of its run, in the form of run.json.
      command: the command line, as arguments of `python -m`.
      warm_start: working directory of the run that gives all runs their first weights.

    Raises:
      InputError: a point's values do not fit the config; `root` is the directory of a single run; or runs
        failed.
      Interrupted: a signal ended it, after the run under way had saved.
    """
    check_given_once(command, points[0])
    trials = [
        Trial(
            point=point,
            workdir=Workdir(root / point.name),
            config=config_of(point),
            warm_start=warm_start,
        )
        for point in points
    ]
    check_directory(root)
    with files.hold_directory(root, thing=f"--workdir={root}"):
        rows = _train_all(trials, dataset=dataset, command=command)
        files.write_bytes(root / TABLE, csv_text(rows).encode())
    label = dataset.schema.label
    print("\n".join(["", *table_lines(ranked_trials(rows, label), label), "", f"sweep {root / TABLE}"]))
    _require_all(trials, rows)


def _train_all(trials: Sequence[Trial], *, dataset: Dataset, command: Sequence[str]) -> list[Row]:
    rows = []
    digest = dataset.manifest.digest
    with Deferred() as signals, tqdm(total=len(trials), unit="run", disable=not sys.stderr.isatty()) as bar:
        for number, trial in enumerate(trials, 1):
            place = f"{number}/{len(trials)}  {' '.join(trial.point.flags).replace('--config.', '')}"
            bar.write(f"{place}  log: {trial.log}")
            sys.stdout.flush()
            row = _row(trial, digest=digest, command=command, came=signals.came)
            bar.write(f"{place}  {_result(row)}")
            sys.stdout.flush()
            bar.update()
            rows.append(row)
    return rows


def _row(trial: Trial, *, digest: str, command: Sequence[str], came: Callable[[], int]) -> Row:
    """Returns the result of a run; trains it first if it is not finished."""
    code = 0 if trial.is_finished(dataset_digest=digest) else trial.train(command, came=came)
    if number := came():
        raise Interrupted(number, "the run under way was saved; the same command goes on with it")
    values = trial.point.values
    if code:
        return Row(values=values, failed=child.why_failed(code, log=trial.log))
    return Row(values=values, numbers=trial.numbers(), seconds=trial.seconds())


def _result(row: Row) -> str:
    numbers = "  ".join(f"{name} {value:.4f}" for name, value in row.numbers.items())
    return f"failed: {row.failed}" if row.failed else numbers


def check_directory(root: pathlib.Path) -> None:
    if Workdir(root).run.exists():
        raise InputError(
            f"--workdir={root}",
            received="the working directory of a single run",
            expected="a directory for the runs of a sweep",
            action="Choose another directory.",
        )
    root.mkdir(parents=True, exist_ok=True)


def _require_all(trials: Sequence[Trial], rows: Sequence[Row]) -> None:
    failed = [trial for trial, row in zip(trials, rows, strict=True) if row.failed]
    if failed:
        raise InputError(
            f"{len(failed)} of {len(rows)} runs",
            received="a failure",
            expected="runs that train to the end",
            action=f"See {failed[0].log}; the same command tries them again.",
        )
