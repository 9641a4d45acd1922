"""Real data end to end, by the commands a user types; minutes, so no part of the tests.

  PENSTOCK_DATA=DIR make acceptance
  python -m tests.soak.acceptance --data=DIR --cases=adult

For each data set: propose a schema, convert twice (with one and with two worker processes) to the same bytes,
train, export, and score the export in a process that has nothing but TensorFlow. TensorFlow Datasets must
read just what the raw files hold.
"""

import collections
import csv
import filecmp
import functools
import hashlib
import json
import pathlib
import shlex
import subprocess
import sys
from collections.abc import Iterator, Sequence

import numpy as np
import PIL.Image

from pipeline.base import tensorflow_start  # noqa: F401 - before TensorFlow

# isort: split
import tensorflow_datasets as tfds

from pipeline.data.schema import schema as schema_lib
from tests.shared.real_data import ADULT_COLUMNS, cases, unpack_mnist
from tests.soak import harness
from tests.soak.commands import TWO_PROCESSES
from tests.soak.harness import Row, Soak, needs_data


class CommandFailedError(Exception):
    """A command of ours, or what scores an export, failed."""


def run(*command: str) -> None:
    """Runs a command of ours, shown as a user would type it."""
    print(f"\n$ {shlex.join(('python', *command))}", flush=True)
    if subprocess.run([sys.executable, *command]).returncode:
        raise CommandFailedError(shlex.join(command))


def score(*arguments: str) -> dict[str, float]:
    """What a process without Penstock makes of an export."""
    command = [sys.executable, "tests/soak/score_with_tensorflow.py", *arguments]
    result = subprocess.run(command, text=True, capture_output=True)
    if result.returncode:
        raise CommandFailedError(f"{shlex.join(command)}: {result.stderr}")
    return json.loads(result.stdout)


def faults(soak: Soak, *, name: str) -> Iterator[str]:
    """Walks the whole road of a data set."""
    mnist = unpack_mnist(soak.data.resolve(), soak.folder) if name == "mnist" else soak.folder
    case = next(case for case in cases(soak.data.resolve(), mnist) if case.name == name)
    schema, dataset, workdir, model = (soak.folder / n for n in ("schema.json", "1.0.0", "run", "model"))
    named = (f"--name={case.name}", f"--output={schema}")
    run("-m", "beam_jobs.infer_schema", *case.source, *case.infer, *named)
    for output, beam_flags in ((dataset, ()), (soak.folder / "again" / "1.0.0", TWO_PROCESSES)):
        given = (*case.source, *case.convert, f"--schema={schema}", f"--output={output}", *beam_flags)
        run("-m", "beam_jobs.convert", *given)
        manifest = json.loads((output / "manifest.json").read_text())
        if (manifest["rows_read"], manifest["rows_rejected"]) != (case.rows, 0):
            yield f"{manifest['rows_read']} rows read, {manifest['rows_rejected']} rejected, of {case.rows}"
    if other := _other_bytes(dataset, soak.folder / "again" / "1.0.0"):
        yield f"two worker processes give other bytes: {', '.join(other)}"
    config = f"--config=pipeline/configs/{case.config}.py"
    run("-m", "pipeline.train", config, f"--dataset={dataset}", f"--workdir={workdir}", *case.train)
    run("-m", "pipeline.export", f"--workdir={workdir}", f"--output={model}")
    shards = sorted(map(str, dataset.glob(f"{case.name}-test.tfrecord-*-of-*[0-9]")))
    result = score(str(model), case.label, *shards)
    reached = result[case.metric]
    print(f"{name}: {result['examples']:,} test examples, {case.metric} {reached:.4f}", flush=True)
    if reached < case.required:
        yield f"{case.metric} {reached:.4f}, of which {case.required} is required"
    if name == "mnist":
        yield from (fault for split in ("train", "test") for fault in _images(dataset, mnist / split, split))
    if name == "adult":
        yield from _adult_rows(dataset, soak.data / "adult" / "adult-test.csv")
        raw = score(str(model), case.label, str(soak.data / "adult" / "adult-test.csv"), *_COLUMNS)
        if abs(raw["auc"] - result["auc"]) >= 1e-6:
            yield "raw strings and records give different answers"


_COLUMNS = ADULT_COLUMNS.split(",")


def _other_bytes(dataset: pathlib.Path, again: pathlib.Path) -> list[str]:
    manifest = json.loads((dataset / "manifest.json").read_text())
    names = [shard["path"] for shards in manifest["splits"].values() for shard in shards]
    names += [file["path"] for file in manifest["files"]] + ["manifest.json"]
    _, different, unreadable = filecmp.cmpfiles(dataset, again, names, shallow=False)
    return different + unreadable


def _images(dataset: pathlib.Path, folder: pathlib.Path, split: str) -> Iterator[str]:
    """Compares the images of `folder`/<class>/ with those of the split, as multisets."""
    examples = tfds.as_numpy(tfds.builder_from_directory(dataset).as_dataset(split=split))
    read = collections.Counter(_digest(example["label"], example["image"]) for example in examples)
    files = folder.glob("*/*.png")
    held = collections.Counter(_digest(path.parent.name, _pixels(path)) for path in files)
    if read != held:
        yield f"{split}: other images than {folder} holds"


def _digest(label: object, pixels: np.ndarray) -> bytes:
    return hashlib.sha256(f"{label} ".encode() + pixels.tobytes()).digest()


def _pixels(path: pathlib.Path) -> np.ndarray:
    return np.asarray(PIL.Image.open(path).convert("L"))


def _adult_rows(dataset: pathlib.Path, file: pathlib.Path) -> Iterator[str]:
    """Compares the rows of Adult's test file with those of the test split; a marker is empty."""
    schema = schema_lib.load(dataset / schema_lib.FILE_NAME)
    markers = [frozenset(schema[name].clean.null_markers) for name in _COLUMNS]
    examples = tfds.as_numpy(tfds.builder_from_directory(dataset).as_dataset(split="test"))
    read = collections.Counter(tuple(_as_text(example[name]) for name in _COLUMNS) for example in examples)
    with file.open(newline="") as lines:
        held = collections.Counter(_cleaned(row, markers) for row in csv.reader(lines) if row)
    if read != held:
        yield f"test: other rows than {file} holds"


def _as_text(value: object) -> str:
    if isinstance(value, np.floating) and np.isnan(value):
        return ""
    return value.decode() if isinstance(value, bytes) else str(int(value))


def _cleaned(row: Sequence[str], markers: Sequence[frozenset[str]]) -> tuple[str, ...]:
    """The cells as text; `markers` of each column stand for no value."""
    *cells, label = (cell.strip() for cell in row)
    kept = ("" if cell in missing else cell for cell, missing in zip(cells, markers, strict=False))
    return *kept, str(["<=50K.", ">50K."].index(label))


ROWS = tuple(
    Row(
        name=name,
        sentence=f"Takes {name} from raw files to a scored export.",
        faults=functools.partial(faults, name=name),
        lacks=needs_data,
    )
    for name in ("mnist", "adult", "taxi", "penguins")
)


if __name__ == "__main__":
    harness.run(lambda: ROWS)
