"""Rows of a CSV file are poisoned, converted and trained on; the replay of a step must put them first.

No NaN is planted, as none reaches a model: the conversion refuses it or takes it for a missing number
(cells/numbers.py), of which the model is told with a finite one (preprocessing/numbers.py). A number whose
sign and decimal point are wrong does reach it.
"""

import csv
import dataclasses
import pathlib
from collections.abc import Mapping

import numpy as np

from pipeline.data.dataset import manifest
from pipeline.data.schema import schema as schema_lib
from pipeline.training import run
from pipeline.training.replay import Replay
from pipeline.training.replaying.raw_features import RawFeatures, raw_features
from tests.pipeline.training.small_run import SCHEMA, small_config
from tests.shared import forked

ROWS, POISONED = 8_000, 30
_BATCH, _EPOCHS = 32, 4
_LEARNT = 50  # steps after which the model tells the labels apart
_CLEARLY = 2.0  # of |x + y|: a row whose label nobody doubts
_FACTOR = -10.0  # of a wrong number

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
    raw: str  # file and line, as the replay tells them
    is_found: bool  # the first, with its line


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
    request = run.Request(
        config=config,
        dataset=manifest.open_dataset(folder / "dataset"),
        workdir=folder / "run",
        precision="float32",
        strategy="one_device",
    )
    run.train(request)
    replay = Replay(folder / "run")
    steps = _steps_of(replay, set(planted))
    return [_found(replay, one, key, steps[key]) for key, one in planted.items()]


def _found(replay: Replay, planted: Planted, key: Key, step: int) -> Found:
    replayed = replay.step(step, examples=_BATCH)
    told = [_key(example.features) for example in replayed.examples]
    rank = told.index(key) + 1
    raw = str(replayed.examples[rank - 1].raw)
    return Found(
        row=planted.row,
        kind=planted.kind,
        step=step,
        loss=replayed.examples[rank - 1].loss,
        rank=rank,
        raw=raw,
        is_found=rank == 1 and raw == f"rows.csv line {planted.row:,}",
    )


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
    """Half of the planted rows have a wrong label, half a wrong number: the larger of the two."""
    draw = np.random.default_rng(7)
    points = draw.normal(size=(rows, 2)).round(6)
    labels = points.sum(axis=1) > 0
    clear = np.flatnonzero(np.abs(points.sum(axis=1)) > _CLEARLY)
    chosen = draw.choice(clear, poisoned, replace=False)
    kinds = {}
    for number, at in enumerate(chosen.tolist()):
        if number % 2:
            kinds[at] = "wrong label"
            labels[at] = not labels[at]
        else:
            kinds[at] = "wrong number"
            points[at, np.argmax(np.abs(points[at]))] *= _FACTOR
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["x", "y", "kind", "positive"])
        for (x, y), label in zip(points.tolist(), labels.tolist(), strict=True):
            writer.writerow([repr(x), repr(y), "ab"[int(draw.integers(2))], "yes" if label else "no"])
    stored = points.astype(np.float32).astype(np.float64)
    return {tuple(stored[at].tolist()): Planted(row=at + 2, kind=kind) for at, kind in kinds.items()}
