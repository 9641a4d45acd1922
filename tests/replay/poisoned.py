"""Rows of a CSV file are poisoned, converted and trained on; the replay of a step must put them first.

Half have a wrong label at a high weight, among noisy labels at low weights and right ones at high weights.

The other half become NaN inside the model. None is written into the file: the conversion refuses it or takes
it for a missing number (cells/numbers.py), of which the model is told with a finite one
(preprocessing/numbers.py). But 99999, which many a sensor gives when it has failed, is infinite in float16,
and the numbers of a tensor are not standardised. There the run's own guard must name the row, too.
"""

import csv
import dataclasses
import io
import pathlib
from collections.abc import Mapping, Sequence
from contextlib import redirect_stdout

import numpy as np

from pipeline.data.dataset import manifest
from pipeline.data.schema import schema as schema_lib
from pipeline.data.schema.feature_types import Numeric, Tensor
from pipeline.data.schema.schema import Schema
from pipeline.training.replay.evaluator import worst_first
from pipeline.training.replay.replay import Replay
from pipeline.training.replay.step import Example
from pipeline.training.replay.stream import RawFeatures, raw_features
from pipeline.training.run import run
from tests.pipeline.training import small_run
from tests.pipeline.training.small_run import small_config
from tests.shared import forked
from tests.shared.parsed import parsed

ROWS, POISONED = 8_000, 30
_BATCH, _EPOCHS = 32, 4
_LEARNT = 50  # steps after which the model tells the labels apart
_CLEARLY = 1.5  # of |x + y|: a row whose label nobody doubts
_FAILED = 99999.0  # what a sensor gives then; float16 ends at 65504
_NOISE, _NOISY_WEIGHT = 0.1, 0.5  # part of the rows with a wrong label that nobody planted, and their weight
_HEAVY, _HEAVY_WEIGHT = 0.03, 20.0  # part of the rows with a right label and the weight of planted ones
_NAN, _WRONG = "NaN in the model", "wrong label, weight 20"

SCHEMA = Schema(
    name="poisoned",
    features=(
        Numeric(name="weight"),
        Tensor(name="sensor", dimensions=(2,)),
        *small_run.SCHEMA.features,
    ),
)

Key = tuple[float, float]  # x and y of a row, which no other row has


@dataclasses.dataclass(frozen=True, kw_only=True)
class Planted:
    row: int  # line of the CSV file, from 1
    kind: str


@dataclasses.dataclass(frozen=True, kw_only=True)
class Found:
    """A poisoned row, and where its step's replay puts it."""

    row: int
    kind: str
    step: int
    loss: float
    rank: int  # among the examples of the batch, from 1
    unweighted: int  # what the rank would be if all examples weighed the same
    raw: str  # file and line, as the replay tells them
    is_named: bool  # by the run itself, where it had to skip the step
    is_found: bool  # the first, with its line; and named, where it is NaN


def convert(folder: pathlib.Path, *, rows: int = ROWS, poisoned: int = POISONED) -> dict[Key, Planted]:
    """Writes rows, and makes a dataset of them. Call it before TensorFlow computes anything here."""
    folder.mkdir(parents=True)
    planted = _write_rows(folder / "rows.csv", rows, poisoned)
    schema_lib.save(SCHEMA, folder / "schema.json")
    command = [
        *("beam_jobs.convert", f"--input={folder / 'rows.csv'}", f"--schema={folder / 'schema.json'}"),
        *(f"--output={folder / 'dataset'}", "--splits=train=1"),
    ]
    ended = forked.command(command, folder / "conversion", timeout=300)
    if ended.code:
        raise RuntimeError(ended.stderr)
    return planted


def find(folder: pathlib.Path, planted: Mapping[Key, Planted]) -> list[Found]:
    """Trains on poisoned rows; replays, for each, a step in whose batch it is the only one."""
    config = small_config()
    config.global_batch = _BATCH
    config.train.epochs = float(_EPOCHS)
    config.train.checkpoint_every_steps = _LEARNT
    config.train.checkpoints_kept = 1_000
    config.train.example_weights = "weight"
    config.train.update({"on_bad_step": "skip", "bad_steps_allowed": _EPOCHS * len(planted)})
    request = run.Request(
        experiment=parsed(config),
        dataset=manifest.open_dataset(folder / "dataset"),
        workdir=folder / "run",
        precision="mixed_float16",
        strategy="one_device",
    )
    told = io.StringIO()
    with redirect_stdout(told):
        run.train(request)
    replay = Replay(folder / "run")
    steps = _steps_of(replay, set(planted))
    return [_found(replay, one, key, steps[key], told.getvalue()) for key, one in planted.items()]


def _found(replay: Replay, planted: Planted, key: Key, step: int, output: str) -> Found:
    replayed = replay.step(step, examples=_BATCH)
    told = [_key(example.features) for example in replayed.examples]
    rank = told.index(key) + 1
    raw = str(replayed.examples[rank - 1].raw)
    is_named = any(
        line.startswith(f"skipped    step {step:,}, ")
        and f"; raw row rows.csv line {planted.row:,}: " in line
        for line in output.splitlines()
    )
    return Found(
        row=planted.row,
        kind=planted.kind,
        step=step,
        loss=replayed.examples[rank - 1].loss,
        rank=rank,
        unweighted=_unweighted_rank(replayed.examples, rank - 1),
        raw=raw,
        is_named=is_named,
        is_found=rank == 1 and raw == f"rows.csv line {planted.row:,}" and is_named == (planted.kind == _NAN),
    )


def _unweighted_rank(examples: Sequence[Example], at: int) -> int:
    """From 1; `at` is the index of an example."""
    losses = np.array([example.loss / example.weight for example in examples], np.float32)
    return 1 + worst_first(losses).tolist().index(at)


def _steps_of(replay: Replay, keys: set[Key]) -> dict[Key, int]:
    """Of each planted row the first step in whose batch it is alone among them, when the model has learnt."""
    known: dict[tuple[str, int], Key] = {}
    steps: dict[Key, int] = {}
    for step in range(_LEARNT, replay.steps):
        records = replay.stream.records(step)
        new = [record for record in records if (record.file, record.ordinal) not in known]
        features = raw_features(replay.stream.data, new)
        known |= {(one.file, one.ordinal): _key(raw) for one, raw in zip(new, features, strict=True)}
        here = keys & {known[record.file, record.ordinal] for record in records}
        if len(here) == 1:
            steps.setdefault(here.pop(), step)
    return steps


def _key(features: RawFeatures) -> Key:
    return float(features["x"]), float(features["y"])


def _write_rows(path: pathlib.Path, rows: int, poisoned: int) -> dict[Key, Planted]:
    """Of the planted rows every second has a wrong label and much weight, the others a sensor that failed."""
    draw = np.random.default_rng(7)
    points = draw.normal(size=(rows, 2)).round(6)
    labels = points.sum(axis=1) > 0
    weights = draw.uniform(0.5, 2.0, rows).round(3)
    weights[draw.random(rows) < _HEAVY] = _HEAVY_WEIGHT
    noisy = draw.random(rows) < _NOISE
    labels[noisy], weights[noisy] = ~labels[noisy], _NOISY_WEIGHT
    sensors = draw.normal(size=(rows, 2)).round(3)
    clear = np.flatnonzero((np.abs(points.sum(axis=1)) > _CLEARLY) & ~noisy)
    chosen = draw.choice(clear, poisoned, replace=False)
    wrong, failed = chosen[1::2], chosen[::2]
    labels[wrong], weights[wrong] = ~labels[wrong], _HEAVY_WEIGHT
    sensors[failed, 0] = _FAILED
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["weight", "sensor", "x", "y", "kind", "positive"])
        for weight, sensor, (x, y), label in zip(
            weights.tolist(), sensors.tolist(), points.tolist(), labels.tolist(), strict=True
        ):
            kind, answer = "ab"[int(draw.integers(2))], "yes" if label else "no"
            writer.writerow([weight, " ".join(map(repr, sensor)), repr(x), repr(y), kind, answer])
    stored = points.astype(np.float32).astype(np.float64)
    kinds = dict.fromkeys(wrong.tolist(), _WRONG) | dict.fromkeys(failed.tolist(), _NAN)
    return {tuple(stored[at].tolist()): Planted(row=at + 2, kind=kind) for at, kind in kinds.items()}
