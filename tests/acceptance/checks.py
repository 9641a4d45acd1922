"""TensorFlow Datasets reads a published dataset just as the raw files hold it."""

import collections
import csv
import hashlib
import pathlib
from collections.abc import Sequence

import numpy as np
import PIL.Image
import tensorflow_datasets as tfds


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
    """Compares the rows of Adult's test file with those of the test split: `?` is empty."""
    examples = tfds.as_numpy(tfds.builder_from_directory(dataset).as_dataset(split="test"))
    read = collections.Counter(tuple(_as_text(example[name]) for name in columns) for example in examples)
    with file.open(newline="") as lines:
        held = collections.Counter(_cleaned(row) for row in csv.reader(lines) if row)
    assert read == held, f"{dataset}, test: other rows than {file} holds"


def _as_text(value: object) -> str:
    return value.decode() if isinstance(value, bytes) else str(int(value))


def _cleaned(row: list[str]) -> tuple[str, ...]:
    *cells, label = (cell.strip() for cell in row)
    return *("" if cell == "?" else cell for cell in cells), str(["<=50K.", ">50K."].index(label))
