"""TensorFlow Datasets reads a published dataset just as the raw files hold it."""

import collections
import csv
import hashlib
import pathlib
from collections.abc import Sequence

import numpy as np
import PIL.Image
import tensorflow_datasets as tfds

from pipeline.data.schema import schema as schema_lib


def check_images(dataset: pathlib.Path, folder: pathlib.Path, *, split: str) -> None:
    """Compares the images of `folder`/<class>/ with those of the split, as multisets."""
    examples = tfds.as_numpy(tfds.builder_from_directory(dataset).as_dataset(split=split))
    read = collections.Counter(_digest(example["label"], example["image"]) for example in examples)
    files = folder.glob("*/*.png")
    held = collections.Counter(_digest(path.parent.name, _pixels(path)) for path in files)
    assert read == held, f"{dataset}, {split}: other images than {folder} holds"


def _digest(label: object, pixels: np.ndarray) -> bytes:
    return hashlib.sha256(f"{label} ".encode() + pixels.tobytes()).digest()


def _pixels(path: pathlib.Path) -> np.ndarray:
    return np.asarray(PIL.Image.open(path).convert("L"))


def check_adult_rows(dataset: pathlib.Path, file: pathlib.Path, columns: Sequence[str]) -> None:
    """Compares the rows of Adult's test file with those of the test split; a marker is empty."""
    schema = schema_lib.load(dataset / schema_lib.FILE_NAME)
    markers = [frozenset(schema[name].clean.null_markers) for name in columns]
    examples = tfds.as_numpy(tfds.builder_from_directory(dataset).as_dataset(split="test"))
    read = collections.Counter(tuple(_as_text(example[name]) for name in columns) for example in examples)
    with file.open(newline="") as lines:
        held = collections.Counter(_cleaned(row, markers) for row in csv.reader(lines) if row)
    assert read == held, f"{dataset}, test: other rows than {file} holds"


def _as_text(value: object) -> str:
    if isinstance(value, np.floating) and np.isnan(value):
        return ""
    return value.decode() if isinstance(value, bytes) else str(int(value))


def _cleaned(row: Sequence[str], markers: Sequence[frozenset[str]]) -> tuple[str, ...]:
    """The cells as text; `markers` of each column stand for no value."""
    *cells, label = (cell.strip() for cell in row)
    kept = ("" if cell in missing else cell for cell, missing in zip(cells, markers, strict=False))
    return *kept, str(["<=50K.", ">50K."].index(label))
