"""Runs a sweep: each run that is not there yet, one after another; then what all came to."""

import pathlib
import sys
from collections.abc import Callable, Sequence

from ml_collections import ConfigDict
from tqdm import tqdm

from pipeline.data import atomic_files, held_directory
from pipeline.data.commands.deferred import Deferred, Interrupted
from pipeline.data.dataset.manifest import Dataset
from pipeline.data.errors import InputError
from pipeline.training.state.workdir import Workdir
from pipeline.training.sweep import table
from pipeline.training.sweep.grid import Point, check_given_once, config_of
from pipeline.training.sweep.table import Row
from pipeline.training.sweep.trial import Trial

TABLE = "sweep.csv"


def run(
    points: Sequence[Point],
    *,
    config: ConfigDict,
    dataset: Dataset,
    root: pathlib.Path,
    command: Sequence[str],
    adapted: Callable[[ConfigDict], ConfigDict] = lambda config: config,
    warm_start: pathlib.Path | None = None,
) -> None:
    """Trains at each point, in directories below `root`; prints the table, and writes sweep.csv there.

    Repeating it trains what is missing or unfinished. A run that fails does not end the others.

    Args:
      config: without the values of the points.
      command: the command line, as behind `python -m`.
      adapted: what a command makes of its config before it trains.
      warm_start: working directory of the run whose weights all runs begin with.

    Raises:
      InputError: a point's values do not fit the config; `root` is a single run's; or runs failed.
      Interrupted: a signal ended it, after the run under way had saved.
    """
    check_given_once(command, points[0])
    trials = [
        Trial(
            point=point,
            workdir=Workdir(root / point.name),
            config=adapted(config_of(config, point)),
            warm_start=warm_start,
        )
        for point in points
    ]
    _check_directory(root)
    with held_directory.held(root, thing=f"--workdir={root}"):
        rows = _train_all(trials, dataset=dataset, command=command)
        atomic_files.write_bytes(root / TABLE, table.csv_text(rows).encode())
    label = dataset.schema.label
    print("\n".join(["", *table.lines(table.ranked(rows, label), label), "", f"sweep {root / TABLE}"]))
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
            bar.write(f"{place}  {_told(row)}")
            sys.stdout.flush()
            bar.update()
            rows.append(row)
    return rows


def _row(trial: Trial, *, digest: str, command: Sequence[str], came: Callable[[], int]) -> Row:
    """What a run came to, which trains first if it has not."""
    code = 0 if trial.is_finished(dataset_digest=digest) else trial.train(command, came=came)
    if number := came():
        raise Interrupted(number, "the run under way was saved; the same command goes on with it")
    values = trial.point.values
    if code:
        return Row(values=values, failed=trial.why_failed(code))
    return Row(values=values, numbers=trial.numbers(), seconds=trial.seconds())


def _told(row: Row) -> str:
    numbers = "  ".join(f"{name} {value:.4f}" for name, value in row.numbers.items())
    return f"failed: {row.failed}" if row.failed else numbers


def _check_directory(root: pathlib.Path) -> None:
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
