"""Takes one stranger's data set along the README's commands, and judges how far it comes."""

import dataclasses
import json
import math
import pathlib
import shutil
from collections.abc import Callable, Collection, Iterator, Sequence

import pyarrow.parquet

from pipeline.base.errors import EXIT_BAD_INPUT
from tests.shared.forked import Ended
from tests.strangers.stranger import Stranger

# Called with a command line that starts with the module, and with a folder for its output.
Runner = Callable[[Sequence[str], pathlib.Path], Ended]

NEED_TENSORFLOW = ("train", "export", "evaluate", "predict")
WORKS, ENDS, FAILS = "works", "ends", "FAILS"
_SHORT = ("--config.train.epochs=2", "--config.global_batch=32")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Outcome:
    """How far a set came: `stage` is the last command that was run, `line` what it said at the end."""

    name: str
    ugly: str
    stage: str
    outcome: str
    line: str
    seconds: float


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Stage:
    name: str
    arguments: tuple[str, ...]
    may_end: Callable[[], bool] = lambda: False  # whether one line may be all, now that it has run


def walk(stranger: Stranger, folder: pathlib.Path, run: Runner, *, skip: Collection[str] = ()) -> Outcome:
    """Writes the set into `folder`, emptied first, and runs the README's commands on it but `skip`."""
    shutil.rmtree(folder, ignore_errors=True)
    (folder / "raw").mkdir(parents=True)
    stranger.write(folder / "raw")
    seconds = 0.0
    for stage in stages(stranger, folder):
        if stage.name in skip:
            continue
        ended = run(stage.arguments, folder / "output" / stage.name)
        seconds += ended.seconds
        outcome, line = _judge(stage, ended, folder)
        if outcome == ENDS and not stranger.ends:
            outcome, line = FAILS, f"is meant to work: {line}"
        if outcome != WORKS:
            break
    return Outcome(
        name=stranger.name, ugly=stranger.ugly, stage=stage.name, outcome=outcome, line=line, seconds=seconds
    )


def stages(stranger: Stranger, folder: pathlib.Path) -> Iterator[_Stage]:
    schema, dataset, run = folder / "schema.json", folder / "dataset" / "1.0.0", folder / "run"
    model, predictions = folder / "model" / "1", folder / "predictions"
    inputs = tuple(f"--input={_located(given, folder / 'raw')}" for given in stranger.inputs)
    source = (*inputs, *stranger.source)
    config = f"--config=pipeline/configs/{stranger.config}.py"
    before = lambda: True  # noqa: E731 - nothing has been trained yet
    yield _Stage(
        name="infer_schema",
        arguments=("beam_jobs.infer_schema", *source, *stranger.infer, f"--output={schema}"),
        may_end=before,
    )
    yield _Stage(
        name="convert",
        arguments=("beam_jobs.convert", *source, f"--schema={schema}", f"--output={dataset}"),
        may_end=before,
    )
    yield _Stage(
        name="train",
        arguments=(
            *("pipeline.train", config, f"--dataset={dataset}", f"--workdir={run}"),
            *(*_SHORT, *stranger.train, f"--json={folder / 'train.json'}"),
        ),
        may_end=lambda: not _has_started(run),
    )
    yield _Stage(name="export", arguments=("pipeline.export", f"--workdir={run}", f"--output={model}"))
    evaluated = f"--json={folder / 'evaluate.json'}"
    yield _Stage(
        name="evaluate",
        arguments=(
            *("pipeline.evaluate", f"--model={model}", f"--dataset={dataset}", "--split=test"),
            evaluated,
        ),
    )
    unnamed = tuple(
        f"--input={_located(given.rpartition('=')[2], folder / 'raw')}" for given in stranger.inputs
    )
    yield _Stage(
        name="predict",
        arguments=(
            *("beam_jobs.predict", f"--model={model}", *unnamed[-1:], *stranger.source),
            f"--output={predictions}",
        ),
    )
    yield _Stage(name="verify", arguments=("beam_jobs.verify", str(dataset)))


def _located(given: str, raw: pathlib.Path) -> str:
    """`[SPLIT=]PATH` with the path below `raw`."""
    split, equals, path = given.rpartition("=")
    return f"{split}{equals}{raw / path}"


def _has_started(workdir: pathlib.Path) -> bool:
    return any(workdir.rglob("*.index")) or (workdir / "history.jsonl").exists()


def _judge(stage: _Stage, ended: Ended, folder: pathlib.Path) -> tuple[str, str]:
    """The outcome so far, and the line that tells of it."""
    lines = ended.error_lines
    last = lines[-1] if lines else ""
    if ended.timed_out:
        return FAILS, f"took longer than {ended.seconds:.0f} s"
    if ended.code == 0:
        problem = "a traceback in the output" if "Traceback (most" in ended.stderr else _not_finite(folder)
        return (FAILS, problem) if problem else (WORKS, "")
    if ended.code != EXIT_BAD_INPUT:
        return FAILS, f"exit code {ended.code}: {last}"
    if not is_one_answer(lines):
        return FAILS, f"{len(lines)} lines, the last: {last}"
    return (ENDS, last) if stage.may_end() else (FAILS, f"after training started: {last}")


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
    if isinstance(document, dict):
        for key, value in document.items():
            yield from _numbers(value, f"{path}.{key}" if path else key)
    elif isinstance(document, list):
        for value in document:
            yield from _numbers(value, path)
    elif isinstance(document, float):
        yield path, document
