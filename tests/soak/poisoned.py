"""Rows of a CSV file are poisoned, converted and trained on; the replay of a step must put them first.

Half have a wrong label at a high weight, among noisy labels at low weights and right ones at high weights.

The other half become NaN inside the model. None is written into the file: the conversion refuses it or takes
it for a missing number (cells/numbers.py), which the model gets as a finite one
(preprocessing/numbers.py). But 99999, which many a sensor gives when it has failed, is infinite in float16,
and the numbers of a tensor are not standardised. There the run's own guard must name the row, too.
"""

import csv
import dataclasses
import io
import pathlib
from collections.abc import Iterator, Mapping
from contextlib import redirect_stdout

import numpy as np

from pipeline.data.dataset import manifest
from pipeline.data.schema import schema as schema_lib
from pipeline.data.schema.feature_types import Numeric, Tensor
from pipeline.data.schema.schema import Schema
from pipeline.training.replay.replay import Replay
from pipeline.training.replay.stream import RawFeatures, raw_features
from pipeline.training.run import run
from tests.shared import forked, small_run
from tests.shared.parsed import parsed
from tests.shared.small_run import small_config
from tests.soak.harness import Row, Soak

RAW_ROWS, POISONED = 8_000, 30
_BATCH, _EPOCHS = 32, 4
_LEARNT = 50  # steps after which the model tells the labels apart
_CLEARLY = 1.5  # of |x + y|: a row whose label nobody doubts
_FAILED = 99999.0  # what a sensor gives then; float16 ends at 65504
_NOISE, _NOISY_WEIGHT = 0.1, 0.5  # part of the rows with a wrong label that nobody poisoned, and their weight
_HEAVY, _HEAVY_WEIGHT = 0.03, 20.0  # part of the rows with a right label and the weight of poisoned ones
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
class Poisoned:
    row: int  # line of the CSV file, from 1
    kind: str


def convert(folder: pathlib.Path, *, rows: int = RAW_ROWS, poisoned: int = POISONED) -> dict[Key, Poisoned]:
    """Writes rows, and makes a dataset of them. Call it before TensorFlow computes anything here."""
    folder.mkdir(parents=True)
    poisoned_rows = _write_rows(folder / "rows.csv", rows, poisoned)
    schema_lib.save(SCHEMA, folder / "schema.json")
    command = [
        *("beam_jobs.convert", f"--input={folder / 'rows.csv'}", f"--schema={folder / 'schema.json'}"),
        *(f"--output={folder / 'dataset'}", "--splits=train=1"),
    ]
    ended = forked.command(command, folder / "conversion", timeout=300)
    if ended.code:
        raise RuntimeError(ended.stderr)
    return poisoned_rows


def find(folder: pathlib.Path, poisoned_rows: Mapping[Key, Poisoned]) -> Iterator[str]:
    """Trains on poisoned rows; what is wrong with the replay of a step in whose batch each is alone."""
    config = small_config()
    config.global_batch = _BATCH
    config.train.epochs = float(_EPOCHS)
    config.train.checkpoint_every_steps = _LEARNT
    config.train.checkpoints_kept = 1_000
    config.train.example_weights = "weight"
    config.train.update({"on_bad_step": "skip", "bad_steps_allowed": _EPOCHS * len(poisoned_rows)})
    request = run.Request(
        experiment=parsed(config),
        dataset=manifest.open_dataset(folder / "dataset"),
        workdir=folder / "run",
        precision="mixed_float16",
        strategy="one_device",
    )
    output = io.StringIO()
    with redirect_stdout(output):
        run.train(request)
    replay = Replay(folder / "run")
    steps = _steps_of(replay, set(poisoned_rows))
    for key, one in poisoned_rows.items():
        yield from _faults(replay, one, key, steps[key], output.getvalue())


def _faults(replay: Replay, one: Poisoned, key: Key, step: int, output: str) -> Iterator[str]:
    """It must be the first of its step, with file and line; and be named by the run, where it is NaN."""
    first = replay.step(step, examples=1).examples[0]
    wanted = f"rows.csv line {one.row:,}"
    if _key(first.features) != key or str(first.raw) != wanted:
        yield f"step {step}: {first.raw} comes first, not {wanted} ({one.kind})"
    is_named = any(
        line.startswith(f"skipped    step {step:,}, ") and f"; raw row {wanted}: " in line
        for line in output.splitlines()
    )
    if is_named != (one.kind == _NAN):
        yield f"step {step}: {wanted} ({one.kind}) is {'' if is_named else 'not '}named by the run"


def _steps_of(replay: Replay, keys: set[Key]) -> dict[Key, int]:
    """The first step, for each row, in whose batch no other one is, when the model has learnt."""
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


def _write_rows(path: pathlib.Path, rows: int, poisoned: int) -> dict[Key, Poisoned]:
    """Every second poisoned row has a wrong label and much weight, the others have a sensor that failed."""
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
    return {tuple(stored[at].tolist()): Poisoned(row=at + 2, kind=kind) for at, kind in kinds.items()}


def faults(soak: Soak) -> Iterator[str]:
    """Two of thirty may be missed: among noisy labels another row can be worse."""
    few = {} if soak.count > _FEW else {"rows": 1_600, "poisoned": 4}
    poisoned_rows = convert(soak.folder / "data", **few)
    ended = forked.call(
        lambda: print(*find(soak.folder / "data", poisoned_rows), sep="\n"),
        soak.folder / "found",
        timeout=3_600,
    )
    missed = [line for line in ended.stdout.splitlines() if line]
    if ended.code or len(missed) > len(poisoned_rows) // 15:
        yield from (*missed, ended.stderr.strip()[-600:])


_FEW = 5
ROWS = (
    Row(
        name="poisoned",
        sentence="Poisons rows of a CSV file: the replay of a step puts them first, with file and line.",
        faults=faults,
    ),
)
