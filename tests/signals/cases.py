"""The commands that are sent signals, what they work on, and what of their results no run changes."""

import dataclasses
import hashlib
import json
import pathlib
import random
import re
import subprocess
import sys
from collections.abc import Callable, Sequence

import numpy as np

from tests.beam_jobs.conftest import ROOT, command
from tests.beam_jobs.convert_test import TWO_PROCESSES

_ROWS = 60_000

Contents = dict[str, str]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Case:
    """A command, and what of its results is the same in every run.

    Attributes:
      arguments: what it is called with, less where it writes.
      output: the flag that says where it writes.
      vouches: the file under the output that is written last.
      identical: digests of what is the same whenever it is run.
      goes_on: whether what it leaves is kept for the next run, as checkpoints are.
    """

    arguments: Sequence[str]
    output: str
    vouches: str
    identical: Callable[[pathlib.Path], Contents]
    goes_on: bool = False

    def has_published(self, result: pathlib.Path) -> bool:
        return (result / self.vouches).exists()


def cases(made: pathlib.Path) -> dict[str, Case]:
    """On the data and the models that `prepare` made in `made`."""
    convert = [
        "beam_jobs.convert",
        f"--input={made / 'visits.csv'}",
        f"--schema={made / 'schema.json'}",
        "--shard_mib=1",
    ]
    dataset = f"--dataset={made / 'dataset'}"
    predict = ["beam_jobs.predict", f"--model={made / 'model'}", f"--input={made / 'visits.csv'}"]
    train = ["pipeline.train", "--config=pipeline/configs/tabular.py", dataset, "--config.train.epochs=2.0"]
    return {
        "convert": Case(
            arguments=convert, output="--output", vouches="manifest.json", identical=dataset_files
        ),
        "convert_2_processes": Case(
            arguments=[*convert, *TWO_PROCESSES],
            output="--output",
            vouches="manifest.json",
            identical=dataset_files,
        ),
        "infer_schema": Case(
            arguments=["beam_jobs.infer_schema", f"--input={made / 'visits.csv'}", "--label=bought"],
            output="--output",
            vouches="",  # the output is the file itself
            identical=lambda path: {path.name: _digest(path.read_bytes())},
        ),
        "train": Case(
            arguments=train,
            output="--workdir",
            vouches="evaluation.json",
            identical=final_metrics,
            goes_on=True,
        ),
        "export": Case(
            arguments=["pipeline.export", f"--workdir={made / 'run'}"],
            output="--output",
            vouches="export.json",
            identical=golden_predictions,
        ),
        "predict": Case(
            arguments=predict, output="--output", vouches="predictions.json", identical=dataset_files
        ),
    }


def dataset_files(directory: pathlib.Path) -> Contents:
    """Of every file but the one that says when and by which command it was made."""
    found = (path for path in directory.rglob("*") if path.is_file() and path.name != "conversion.json")
    return {str(path.relative_to(directory)): _digest(path.read_bytes()) for path in found}


def final_metrics(workdir: pathlib.Path) -> Contents:
    document = json.loads((workdir / "evaluation.json").read_text())
    kept = {name: value for name, value in document.items() if not re.search("second|time", name)}
    return {"evaluation.json": json.dumps(kept, sort_keys=True)}


def golden_predictions(export: pathlib.Path) -> Contents:
    golden = dict(np.load(export / "golden.npz"))
    return {name: _digest(value.tobytes()) for name, value in golden.items()}


def prepare(made: pathlib.Path) -> None:
    """Raw data, a dataset, a trained run and its export."""
    draw = random.Random(1)
    lines = ["age,city,visits,bought"]
    for _ in range(_ROWS):
        age, city, visits = draw.randint(18, 80), draw.choice(["Basel", "Bern", "Genf"]), draw.randint(0, 9)
        lines.append(f"{age},{city},{visits},{'yes' if visits + 2 * (city == 'Bern') > 5 else 'no'}")
    (made / "visits.csv").write_text("\n".join(lines) + "\n")
    raw = f"--input={made / 'visits.csv'}"
    finish("beam_jobs.infer_schema", raw, "--label=bought", f"--output={made / 'schema.json'}")
    finish("beam_jobs.convert", raw, f"--schema={made / 'schema.json'}", f"--output={made / 'dataset'}")
    train = [
        "--config=pipeline/configs/tabular.py",
        f"--dataset={made / 'dataset'}",
        "--config.train.epochs=1.0",
    ]
    finish("pipeline.train", *train, f"--workdir={made / 'run'}")
    finish("pipeline.export", f"--workdir={made / 'run'}", f"--output={made / 'model'}")


def finish(module: str, *arguments: str) -> None:
    """Ends this program where the command fails."""
    done = subprocess.run(command(module, *arguments), cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{module} failed, and nobody disturbed it:\n{done.stderr}")


def rerun(case: Case, result: pathlib.Path) -> Contents:
    """What the same command gives on what a disturbed one left; raises RuntimeError if it fails."""
    if not case.has_published(result) or case.goes_on:
        module, *arguments = case.arguments
        again = command(module, *arguments, f"{case.output}={result}")
        done = subprocess.run(again, cwd=ROOT, capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(f"the re-run failed: {done.stderr.strip()[-300:]}")
    return case.identical(result)


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
