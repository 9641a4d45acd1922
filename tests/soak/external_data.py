"""Takes external data along the README's commands: each works, or ends before training with one line.

Anything else is a fault: a traceback, a second line, an end after training began, a metric not finite.
"""

import functools
import json
import math
import pathlib
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import pyarrow.parquet

from pipeline.base.errors import EXIT_BAD_INPUT
from tests.shared import forked
from tests.soak.external_files import FILES
from tests.soak.external_tables import TABLES, External
from tests.soak.harness import Row, Soak

_SECONDS = 900
_SHORT = ("--config.train.epochs=2", "--config.global_batch=32")


class _Stage(NamedTuple):
    arguments: tuple[str, ...]
    may_end: bool = False  # whether one line may be all, unless training has begun


def _stages(external: External, folder: pathlib.Path) -> Iterator[_Stage]:
    schema, dataset, run = folder / "schema.json", folder / "dataset" / "1.0.0", folder / "run"
    model = folder / "model" / "1"
    source = (*(f"--input={_located(given, folder)}" for given in external.inputs), *external.source)
    config = f"--config=pipeline/configs/{external.config}.py"
    dataset_flag, workdir = f"--dataset={dataset}", f"--workdir={run}"
    unnamed = _located(external.inputs[-1].rpartition("=")[2], folder)
    yield _Stage(("beam_jobs.infer_schema", *source, *external.infer, f"--output={schema}"), may_end=True)
    yield _Stage(("beam_jobs.convert", *source, f"--schema={schema}", f"--output={dataset}"), may_end=True)
    train = (config, dataset_flag, workdir, *_SHORT, *external.train, f"--json={folder / 'train.json'}")
    yield _Stage(("pipeline.train", *train), may_end=True)
    yield _Stage(("pipeline.export", workdir, f"--output={model}"))
    evaluated = ("--split=test", f"--json={folder / 'evaluate.json'}")
    yield _Stage(("pipeline.evaluate", f"--model={model}", dataset_flag, *evaluated))
    predicted = (f"--input={unnamed}", *external.source, f"--output={folder / 'predictions'}")
    yield _Stage(("beam_jobs.predict", f"--model={model}", *predicted))
    yield _Stage(("beam_jobs.verify", str(dataset)))


def _located(given: str, folder: pathlib.Path) -> str:
    """`[SPLIT=]PATH` with the path below the raw folder."""
    split, equals, path = given.rpartition("=")
    return f"{split}{equals}{folder / 'raw' / path}"


def faults(soak: Soak, *, external: External) -> Iterator[str]:
    folder = soak.folder
    (folder / "raw").mkdir()
    external.write(folder / "raw")
    for stage in _stages(external, folder):
        ended = forked.command(stage.arguments, folder / "output" / stage.arguments[0], timeout=_SECONDS)
        has_begun = (folder / "run" / "history.jsonl").exists() or any(folder.glob("run/**/*.index"))
        problem = _problem(ended, folder, may_end=stage.may_end and external.ends and not has_begun)
        if problem:
            yield f"{stage.arguments[0]}: {problem}"
        if problem or ended.code:
            print(f"{external.name}: {stage.arguments[0]} ended: {ended.stderr.strip()[-200:]}", flush=True)
            return


def _problem(ended: forked.Ended, folder: pathlib.Path, *, may_end: bool) -> str:
    lines = ended.error_lines
    if ended.timed_out:
        return f"took longer than {_SECONDS} s"
    if ended.code == 0:
        return "a traceback in the output" if "Traceback (most" in ended.stderr else _not_finite(folder)
    if ended.code != EXIT_BAD_INPUT:
        return f"exit code {ended.code}: {lines[-1:]}"
    if not is_one_answer(lines):
        return f"{len(lines)} lines, the last: {lines[-1:]}"
    return "" if may_end else f"is meant to work: {lines[0]}"


def is_one_answer(lines: Sequence[str]) -> bool:
    """Whether it is one line with what was received, what was expected, and what to do."""
    if len(lines) != 1 or not lines[0].startswith("error: "):
        return False
    _, received, rest = lines[0].partition(": received ")
    _, expected, action = rest.partition("; expected ")
    return bool(received and expected and action.partition(". ")[2])


def _not_finite(folder: pathlib.Path) -> str:
    """Names the metric or the prediction that is no finite number; empty where all are."""
    for name in ("train.json", "evaluate.json"):
        if (folder / name).exists():
            for key, value in _numbers(json.loads((folder / name).read_text())):
                if not math.isfinite(value):
                    return f"{name}: {key} is {value}"
    for part in sorted(folder.glob("predictions/*.parquet")):
        table = pyarrow.parquet.read_table(part)
        for name in {"value", "probabilities"} & set(table.column_names):
            values = table[name].combine_chunks()
            flat = values.flatten() if name == "probabilities" else values
            if not all(value is not None and math.isfinite(value) for value in flat.to_pylist()):
                return f"predictions: not every {name} is finite"
    return ""


def _numbers(document: object, path: str = "") -> Iterator[tuple[str, float]]:
    if isinstance(document, dict | list):
        pairs = document.items() if isinstance(document, dict) else enumerate(document)
        for key, value in pairs:
            yield from _numbers(value, f"{path}.{key}")
    elif isinstance(document, float):
        yield path, document


ROWS = tuple(
    Row(
        name=f"external/{external.name}",
        sentence=f"External data, {external.ugly}: {'one line, or it' if external.ends else 'it'} works.",
        faults=functools.partial(faults, external=external),
    )
    for external in (*TABLES, *FILES)
)
