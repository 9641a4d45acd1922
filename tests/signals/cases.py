"""The commands that are sent signals, what they work on, and what of their results no run changes."""

import dataclasses
import hashlib
import json
import pathlib
import random
import re
from collections.abc import Callable, Sequence

import numpy as np

from tests.beam_jobs.convert_test import TWO_PROCESSES
from tests.signals import started

_ROWS = 4_000
_TRAIN = ("pipeline.train", "--config=pipeline/configs/tabular.py", "--config.train.epochs=2.0")

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

    def writing_to(self, result: pathlib.Path) -> list[str]:
        return [*self.arguments, f"{self.output}={result}"]

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
            arguments=[*_TRAIN, dataset, "--config.train.checkpoint_every_steps=5"],
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
    raw, schema, dataset = (made / name for name in ("visits.csv", "schema.json", "dataset"))
    commands = [
        ["beam_jobs.infer_schema", f"--input={raw}", "--label=bought", f"--output={schema}"],
        ["beam_jobs.convert", f"--input={raw}", f"--schema={schema}", f"--output={dataset}"],
        [*_TRAIN, f"--dataset={dataset}", f"--workdir={made / 'run'}"],
        ["pipeline.export", f"--workdir={made / 'run'}", f"--output={made / 'model'}"],
    ]
    for arguments in commands:
        finish(arguments, made / "prepared")


def finish(arguments: Sequence[str], folder: pathlib.Path, *, afresh: bool = False) -> float:
    """Seconds of the processor that the command takes; raises RuntimeError if it fails."""
    done = started.finish(arguments, folder, afresh=afresh)
    if done.code:
        raise RuntimeError(f"{arguments[0]} failed, and nobody disturbed it: {done.stderr.strip()[-300:]}")
    return done.cpu_seconds


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
