"""One table and split through the commands a person types, and the means over splits beside baselines."""

import csv
import json
import math
import pathlib
import resource
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np

from benchmarks.tabular.sets import Cells, MissingDataError, TableSet, labelled

_PARTS = {"train": 0.64, "validation": 0.16, "test": 0.2}
_BEST = {"auc": max, "accuracy": max, "mean_squared_error": min}
_BELOW_BOOSTING = (0.005, 0.02)  # of a share, and of an RMSE
_BELOW_LINEAR = (0.01, 0.03)

Figures = Mapping[str, object]  # of one run: a line of the results


class RefusedError(RuntimeError):
    """A command ended with an error."""


def measure(
    table: TableSet,
    split: int,
    *,
    data: pathlib.Path,
    flags_of_train: Sequence[str],
    config: str = "tabular",
    metric: str = "",
) -> dict:
    """Runs the three commands on one split.

    Args:
      config: name of the config of pipeline/configs.
      metric: what is compared; empty: what train compares first.

    Raises:
      MissingDataError: the data are not here.
      RefusedError: a command failed.
    """
    with tempfile.TemporaryDirectory() as folder:
        home = pathlib.Path(folder)
        inputs = _write_parts(labelled(table.read(data), table.label), home, seed=split)
        began = resource.getrusage(resource.RUSAGE_CHILDREN)
        whole = f"--input={home / 'all.csv'}"  # a column of whole numbers may have others in another part
        schema, dataset, run = home / "schema.json", home / table.name / "1.0.0", home / "run"
        _run("beam_jobs.infer_schema", whole, f"--label={table.label}", f"--output={schema}", *table.infer)
        _run("beam_jobs.convert", *inputs, f"--schema={schema}", f"--output={dataset}")
        asked = f"--config=pipeline/configs/{config}.py"
        _run("pipeline.train", asked, f"--dataset={dataset}", f"--workdir={run}", *flags_of_train)
        ended = resource.getrusage(resource.RUSAGE_CHILDREN)
        found = json.loads((run / "baselines.json").read_text())
        seconds = ended.ru_utime + ended.ru_stime - began.ru_utime - began.ru_stime
    metric = metric or found["metric"]
    answers = {each["name"]: each["metrics"][metric]["value"] for each in found["baselines"]}
    return {
        "set": table.name,
        "split": split,
        "rows": found["rows_of"],
        "metric": metric,
        "network": found["network"][metric]["value"],
        **answers,
        "cpu_s": round(seconds, 1),
    }


def measured(
    tables: Sequence[TableSet],
    results: pathlib.Path,
    *,
    splits: int,
    measure_one: Callable[[TableSet, int], dict],
) -> list[Figures]:
    """Measures the splits that `results`, a line each, do not have yet; returns the lines of these tables.

    A table whose data are not here, and a split that a command refuses, are told and left out.
    """
    results.parent.mkdir(parents=True, exist_ok=True)
    lines = [json.loads(line) for line in results.read_text().splitlines()] if results.exists() else []
    done = {(line["set"], line["split"]) for line in lines}
    for table in tables:
        for split in (split for split in range(splits) if (table.name, split) not in done):
            try:
                line = measure_one(table, split)
            except MissingDataError as error:
                print(f"{table.name} is left out: {error}", flush=True)
                break
            except RefusedError as error:
                print(f"{table.name}, split {split}: {error}", flush=True)
                continue
            lines.append(line)
            with results.open("a") as file:
                file.write(f"{json.dumps(line)}\n")
            print(json.dumps(line), flush=True)
    names = {table.name for table in tables}
    return [line for line in lines if line["set"] in names]


def _write_parts(cells: Cells, home: pathlib.Path, *, seed: int) -> list[str]:
    """Writes a CSV of shuffled rows for each split, and one of all; returns the flags of `convert`."""
    header, *rows = cells
    order = np.random.default_rng(seed).permutation(len(rows))
    ends = np.round(np.cumsum([*_PARTS.values()]) * len(rows)).astype(int)
    parts = dict(zip(_PARTS, np.split(order, ends[:-1]), strict=True))
    for name, part in (parts | {"all": order}).items():
        with (home / f"{name}.csv").open("w", newline="") as file:
            csv.writer(file).writerows([header, *(rows[at] for at in part)])
    return [f"--input={name}={home / name}.csv" for name in _PARTS]


def _run(module: str, *arguments: str) -> None:
    ended = subprocess.run([sys.executable, "-m", module, *arguments], capture_output=True, text=True)
    if ended.returncode:
        last = (ended.stderr.strip() or ended.stdout.strip()).splitlines()[-1:]
        raise RefusedError(f"{module}: {''.join(last)}")


# --- The table: means over splits, and what each comes to.


def _shown(metric: str, value: float) -> float:
    return math.sqrt(value) if metric == "mean_squared_error" else value


def summary(lines: Sequence[Figures]) -> Iterator[dict]:
    """Yields for each set the means over its splits, and whether they reach the baselines."""
    for name in dict.fromkeys(line["set"] for line in lines):
        own = [line for line in lines if line["set"] == name]
        metric = own[0]["metric"]
        values = {
            model: [_shown(metric, line[model]) for line in own if line.get(model) is not None]
            for model in ("network", "linear", "boosting", "prior")
        }
        means = {model: statistics.mean(found) if found else math.nan for model, found in values.items()}
        spread = statistics.pstdev(values["network"])
        yield {
            "set": name,
            "rows": own[0]["rows"],
            "splits": len(own),
            "metric": "rmse" if metric == "mean_squared_error" else metric,
            **means,
            "spread": spread,
            "as_boosting": _reaches(metric, means["network"], means["boosting"], _BELOW_BOOSTING),
            "as_linear": _reaches(metric, means["network"], means["linear"], _BELOW_LINEAR),
            "cpu_s": statistics.mean(line["cpu_s"] for line in own),
        }


def _reaches(metric: str, own: float, other: float, allowed: tuple[float, float]) -> bool:
    if _BEST[metric] is max:
        return own >= other - allowed[0]
    return own <= other * (1 + allowed[1])


def markdown(rows: Sequence[Mapping]) -> str:
    head = ["table", "rows", "metric", "network", "±", "linear", "HGB", "prior", "≥ HGB", "≥ linear", "CPU s"]
    lines = [
        [
            row["set"],
            f"{row['rows']:,}",
            row["metric"],
            *(f"{row[name]:.5g}" for name in ("network", "spread", "linear", "boosting", "prior")),
            *("yes" if row[name] else "**no**" for name in ("as_boosting", "as_linear")),
            f"{row['cpu_s']:.0f}",
        ]
        for row in rows
    ]
    body = "\n".join(f"| {' | '.join(line)} |" for line in [head, ["---"] * len(head), *lines])
    counted = (sum(row[name] for row in rows) for name in ("as_boosting", "as_linear"))
    boosting, linear = counted
    return f"{body}\n\n{boosting} of {len(rows)} reach HGB, {linear} of {len(rows)} reach the linear model.\n"
