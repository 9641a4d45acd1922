"""The commands that are killed, and whose files are damaged: what each is called with, and what it gives.

`make` runs them one after the other on a made-up table; what of a result is the same in every run, `same`
returns.
"""

import dataclasses
import hashlib
import json
import pathlib
import random
import re
from collections.abc import Callable, Sequence

import numpy as np

from tests.shared import forked

ROWS = 4_000
TWO_PROCESSES = ("--direct_num_workers=2", "--direct_running_mode=multi_processing")
_MAY_TAKE = 900.0  # seconds, on a machine that others use too
_TRAIN = ("--config=pipeline/configs/tabular.py", "--config.train.epochs=2.0")
Contents = dict[str, str]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Command:
    """A command on what `make` made in a folder, which stands as {} in its arguments.

    Attributes:
      output: the flag that says where it writes.
      vouches: the file under the output that is written last; empty where the output is a file.
      same: digests of what is the same whenever it is run.
      goes_on: whether what it leaves is kept for the next run, as checkpoints are.
      result: the name under which `make` keeps the result; empty: it makes none.
    """

    name: str
    sentence: str
    arguments: Sequence[str]
    output: str
    vouches: str
    same: Callable[[pathlib.Path], Contents]
    goes_on: bool = False
    result: str = ""

    def writing_to(self, made: pathlib.Path, result: pathlib.Path) -> list[str]:
        return [*(each.replace("{}", str(made)) for each in self.arguments), f"{self.output}={result}"]

    def has_published(self, result: pathlib.Path) -> bool:
        return (result / self.vouches).exists()


def directory_files(directory: pathlib.Path) -> Contents:
    """Every file but the record of when and by which command it was made, and what a kill left aside."""
    found = (path for path in directory.rglob("*") if path.is_file() and path.name != "conversion.json")
    names = {path.relative_to(directory).as_posix(): path for path in found}
    return {name: digest(path.read_bytes()) for name, path in names.items() if not name.startswith("_tmp")}


def final_metrics(workdir: pathlib.Path) -> Contents:
    document = json.loads((workdir / "evaluation.json").read_text())
    kept = {name: value for name, value in document.items() if not re.search("second|time", name)}
    return {"evaluation.json": json.dumps(kept, sort_keys=True)}


def golden_predictions(export: pathlib.Path) -> Contents:
    return {name: digest(value.tobytes()) for name, value in np.load(export / "golden.npz").items()}


def digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


_CONVERT = ("beam_jobs.convert", "--input={}/visits.csv", "--schema={}/schema.json", "--shard_mib=1")
_DIRECTORY = {"output": "--output", "same": directory_files}
COMMANDS = (
    Command(
        name="infer_schema",
        sentence="Proposes a schema for a table",
        arguments=("beam_jobs.infer_schema", "--input={}/visits.csv", "--label=bought"),
        output="--output",
        vouches="",
        same=lambda path: {"schema": digest(path.read_bytes())},
        result="schema.json",
    ),
    Command(
        name="convert",
        sentence="Converts a table in one process",
        arguments=_CONVERT,
        vouches="manifest.json",
        result="dataset",
        **_DIRECTORY,
    ),
    Command(
        name="convert_two_processes",
        sentence="Converts a table in two worker processes",
        arguments=(*_CONVERT, *TWO_PROCESSES),
        vouches="manifest.json",
        **_DIRECTORY,
    ),
    Command(
        name="train",
        sentence="Trains on a table",
        arguments=(
            "pipeline.train",
            *_TRAIN,
            "--dataset={}/dataset",
            "--config.train.checkpoint_every_steps=5",
        ),
        output="--workdir",
        vouches="evaluation.json",
        same=final_metrics,
        goes_on=True,
        result="run",
    ),
    Command(
        name="export",
        sentence="Exports a run",
        arguments=("pipeline.export", "--workdir={}/run"),
        output="--output",
        vouches="export.json",
        same=golden_predictions,
        result="model",
    ),
    Command(
        name="predict",
        sentence="Predicts the rows of a table",
        arguments=("beam_jobs.predict", "--model={}/model", "--input={}/visits.csv"),
        vouches="predictions.json",
        **_DIRECTORY,
    ),
)


def make(made: pathlib.Path, *, before: str = "", rows: int = ROWS) -> None:
    """Makes a table, and the results of all commands that stand before this one. Raises RuntimeError."""
    made.mkdir(parents=True)
    draw = random.Random(1)
    lines = ["age,city,visits,bought"]
    for _ in range(rows):
        age, city, visits = draw.randint(18, 80), draw.choice(["Basel", "Bern", "Genf"]), draw.randint(0, 9)
        lines.append(f"{age},{city},{visits},{'yes' if visits + 2 * (city == 'Bern') > 5 else 'no'}")
    (made / "visits.csv").write_text("\n".join(lines) + "\n")
    for command in COMMANDS:
        if command.name == before:
            return
        if command.result:
            finish(command.writing_to(made, made / command.result), made / "output")


def finish(arguments: Sequence[str], folder: pathlib.Path) -> forked.Ended:
    """How a command ended that nobody disturbs; raises RuntimeError if it fails."""
    ended = forked.command(arguments, folder, timeout=_MAY_TAKE)
    if ended.code:
        raise RuntimeError(f"{' '.join(arguments)}: exit code {ended.code}: {ended.stderr.strip()[-600:]}")
    return ended
