"""Several training runs beside each other: where their configs differ, their final metrics, their curves."""

import dataclasses
import json
import os
import pathlib
from collections.abc import Mapping, Sequence

from pipeline.base.errors import InputError
from pipeline.base.values import leaves
from pipeline.report import formats
from pipeline.report.charts import Series, line_chart
from pipeline.report.section import Figure, Note, Section, Table
from pipeline.training.state import run_record, workdir
from pipeline.training.state.run_record import RunRecord
from pipeline.training.state.workdir import Workdir

MOST_CURVES = 8  # curves in one chart; the style sheet has a colour for each


@dataclasses.dataclass(frozen=True, kw_only=True)
class ComparedRun:
    """A run in the present state of its files; `name` tells it from the others."""

    name: str
    directory: pathlib.Path
    record: RunRecord
    history: Sequence[Mapping]
    evaluation: Mapping

    @property
    def settings(self) -> dict[str, str]:
        """All settings of a run, as text by name; the config comes first."""
        record = self.record
        others = {
            "dataset": record.dataset_digest[:12],
            "strategy": record.strategy,
            "replicas": record.replicas,
            "precision": record.precision.get("policy"),
            "jit_compile": record.jit_compile,
            "warm start": record.warm_start.get("workdir", ""),
            **{f"version of {name}": value for name, value in record.versions.items()},
        }
        return {name: _text(value) for name, value in (*leaves(record.config), *others.items())}

    @property
    def metrics(self) -> dict[str, float]:
        """The final metrics, by split and name; empty before the end."""
        return workdir.numbers(self.evaluation, prefix=f"{self.evaluation.get('split', 'final')} ")

    def curve(self, name: str, *, validation: bool) -> tuple[list[int], list[float]]:
        """Steps and values of a number that the history holds; empty if it was never logged."""
        points = [
            (point["step"], point.get("validation", {}) if validation else point) for point in self.history
        ]
        found = [(step, point[name]) for step, point in points if isinstance(point.get(name), float)]
        return [step for step, _ in found], [value for _, value in found]


def read_runs(places: Sequence[pathlib.Path]) -> list[ComparedRun]:
    """Reads the runs at the places, each a run or a folder of runs, in order.

    Raises:
      InputError: there are fewer than two runs, or a file of one is damaged.
    """
    directories = [directory for place in places for directory in _runs_at(place)]
    directories = list(dict.fromkeys(directories))
    if len(directories) < 2:
        raise InputError(
            "--runs",
            received=f"{len(directories)} run{'s' * (len(directories) != 1)}",
            expected="two or more, or a folder that holds them",
            action="Name each run, or the folder that their --workdir lie in.",
        )
    above = pathlib.Path(os.path.commonpath([directory.parent for directory in directories]))
    return [_read(directory, name=str(directory.relative_to(above))) for directory in directories]


def _runs_at(place: pathlib.Path) -> list[pathlib.Path]:
    if not place.is_dir():
        raise InputError(
            f"--runs={place}",
            received="no such directory",
            expected="a run, or a folder of runs",
            action="Name the --workdir of a run, or the folder that it lies in.",
        )
    place = place.absolute()
    if Workdir(place).run.exists():
        return [place]
    return sorted(path for path in place.iterdir() if Workdir(path).run.exists())


def _read(directory: pathlib.Path, *, name: str) -> ComparedRun:
    files = Workdir(directory)
    return ComparedRun(
        name=name,
        directory=directory,
        record=run_record.read(files.run),
        history=workdir.read_history(files.history) if files.history.exists() else (),
        evaluation=workdir.read_json(files.evaluation) or {},
    )


def differing(runs: Sequence[ComparedRun]) -> dict[str, list[str]]:
    """Returns the settings that differ between runs, with the value of each run, or nothing where it has
    none.
    """
    settings = [run.settings for run in runs]
    names = dict.fromkeys(name for each in settings for name in each)
    values = {name: [each.get(name, "") for each in settings] for name in names}
    return {name: each for name, each in values.items() if len(set(each)) > 1}


def _text(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value)


# --- The page.


def tables(runs: Sequence[ComparedRun]) -> list[Section]:
    """Returns the head, and the sections that a terminal can show."""
    return [Section(title=f"{len(runs)} training runs"), _settings_section(runs), _metrics_section(runs)]


def _settings_section(runs: Sequence[ComparedRun]) -> Section:
    found = differing(runs)
    if not found:
        return Section(title="Settings", parts=[Note(text="All runs have the same settings.")])
    rows = [[run.name, *values] for run, *values in zip(runs, *found.values(), strict=True)]
    return Section(title="Settings that differ", parts=[Table(header=["run", *found], rows=rows)])


def _metrics_section(runs: Sequence[ComparedRun]) -> Section:
    metrics = [run.metrics for run in runs]
    names = list(dict.fromkeys(name for each in metrics for name in each))
    rows = [
        [
            run.name,
            _progress(run.record),
            formats.duration(run.record.seconds),
            *(formats.number(of_run.get(name)) for name in names),
        ]
        for run, of_run in zip(runs, metrics, strict=True)
    ]
    table = Table(header=["run", "steps", "time", *names], rows=rows, numbers=range(1, 3 + len(names)))
    return Section(title="Final metrics", parts=[table])


def _progress(record: RunRecord) -> str:
    steps = formats.count(record.steps)
    return steps if record.finished else f"{steps} of {formats.count(record.total_steps)}"


def curves(runs: Sequence[ComparedRun]) -> Section:
    """Returns a chart of each number, with a line for each run."""
    drawn = runs[:MOST_CURVES]
    left = f"Curves of the first {MOST_CURVES} of {len(runs)} runs." if len(runs) > MOST_CURVES else ""
    validated = dict.fromkeys(
        name
        for run in drawn
        for point in run.history
        for name, value in point.get("validation", {}).items()
        if isinstance(value, float)
    )
    charts = [
        *(_chart(drawn, name, validation=False) for name in ("loss", "accuracy", "learning_rate")),
        *(_chart(drawn, name, validation=True) for name in validated),
    ]
    return Section(title="Curves", parts=[Note(text=left) if left else None, *charts])


def _chart(runs: Sequence[ComparedRun], name: str, *, validation: bool) -> Figure | None:
    series = []
    for number, run in enumerate(runs):
        steps, values = run.curve(name, validation=validation)
        series.append(Series(name=run.name, xs=steps, ys=values, style=f"run{number}"))
    return line_chart(f"{'validation' if validation else 'training'} {name.replace('_', ' ')}", series)


def to_json(runs: Sequence[ComparedRun]) -> dict:
    """Returns what the page shows, without the curves."""
    found = differing(runs)
    return {
        "runs": [
            {
                "name": run.name,
                "directory": str(run.directory),
                "finished": run.record.finished,
                "steps": run.record.steps,
                "total_steps": run.record.total_steps,
                "seconds": run.record.seconds,
                "settings": {name: values[number] for name, values in found.items()},
                "metrics": run.metrics,
            }
            for number, run in enumerate(runs)
        ]
    }
