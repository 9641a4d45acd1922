"""Raw data for the conversion benchmark: the same bytes for the same arguments on every machine.

tabular   a CSV file like click logs: a label, 13 numbers, 26 categories, some cells empty
images    <class>/<number>.jpg, about 25 KB each
text      one file, a line of about 500 characters a row
"""

import io
import pathlib
from collections.abc import Iterator

import numpy as np
import PIL.Image
import pyarrow as pa
import pyarrow.csv

from pipeline.data.schema.feature_types import Categorical, Image, Label, Numeric, Text
from pipeline.data.schema.schema import Schema

NUMBERS = tuple(f"number_{i:02d}" for i in range(13))
CATEGORIES = tuple(f"category_{i:02d}" for i in range(26))
COLUMNS = ("label", *NUMBERS, *CATEGORIES)
CLASSES = tuple(f"class_{i}" for i in range(10))

TABULAR_ROWS = 200_000
IMAGES = 10_000
TEXT_ROWS = 100_000  # 50 MB

_SIDE, _DISTINCT_IMAGES = 224, 100
_CARDINALITIES = [3, 10, 24, 100, 300, 600, 1_000, 3_000, 10_000, 30_000]

PICTURES = Schema(
    name="pictures",
    features=(Image(name="image", encoding="jpeg"), Label(name="label", task="multiclass", classes=CLASSES)),
)
LINES = Schema(name="lines", features=(Text(name="text"),))


def table_schema(*, vocabularies: bool) -> Schema:
    """With listed `vocabularies`, which layout `blocks` asks for, or with ones to be learned."""
    categories = (
        Categorical(
            name=name, missing="mark", vocabulary=tuple(_values_of(number).tolist()) if vocabularies else ()
        )
        for number, name in enumerate(CATEGORIES)
    )
    numbers = (Numeric(name=name, missing="mark") for name in NUMBERS)
    label = Label(name="label", classes=("0", "1"))
    return Schema(name="clicks", features=(label, *numbers, *categories))


def write_table(path: pathlib.Path, rows: int) -> None:
    """A CSV file with a header."""
    options = pa.csv.WriteOptions(include_header=False, quoting_style="none")
    with path.open("wb") as file:
        file.write(f"{','.join(COLUMNS)}\n".encode())
        for seed, start in enumerate(range(0, rows, TABULAR_ROWS)):
            pa.csv.write_csv(_table(min(TABULAR_ROWS, rows - start), seed=seed), file, options)


def write_images(directory: pathlib.Path, images: int) -> None:
    """JPEG files that differ in their last bytes at least: a comment that decoders pass over."""
    distinct = [_jpeg(seed) for seed in range(min(images, _DISTINCT_IMAGES))]
    for name in CLASSES:
        (directory / name).mkdir(parents=True, exist_ok=True)
    for i in range(images):
        path = directory / CLASSES[i % len(CLASSES)] / f"{i:06d}.jpg"
        path.write_bytes(distinct[i % len(distinct)] + i.to_bytes(4, "big"))


def write_text(path: pathlib.Path, rows: int) -> None:
    with path.open("wb") as file:
        file.writelines(_lines(rows))


def _table(rows: int, *, seed: int) -> pa.Table:
    random = np.random.default_rng(seed)
    columns = [pa.array(random.integers(0, 2, rows))]
    for _ in NUMBERS:
        columns.append(pa.array(random.lognormal(3, 2, rows).round(2), mask=random.random(rows) < 0.1))
    for number, _ in enumerate(CATEGORIES):
        names = _values_of(number)
        # Few values are frequent and many are rare, as in logs.
        picked = (len(names) * random.random(rows) ** 4).astype(int)
        columns.append(pa.array(names[picked], mask=random.random(rows) < 0.05))
    return pa.table(dict(zip(COLUMNS, columns, strict=True)))


def _values_of(category: int) -> np.ndarray:
    numbers = np.random.default_rng(category).integers(0, 1 << 32, _CARDINALITIES[category % 10])
    return np.array([f"{number:08x}" for number in np.unique(numbers)])


def _jpeg(seed: int) -> bytes:
    """About 25 KB: blurred noise, so that it compresses as a photograph does."""
    noise = np.random.default_rng(seed).integers(0, 256, (_SIDE // 2, _SIDE // 2, 3), dtype=np.uint8)
    file = io.BytesIO()
    PIL.Image.fromarray(noise).resize((_SIDE, _SIDE)).save(file, format="JPEG", quality=76)
    return file.getvalue()


def _lines(rows: int) -> Iterator[bytes]:
    random = np.random.default_rng(0)
    words = np.array(["".join(map(chr, random.integers(97, 123, n))) for n in random.integers(2, 10, 20_000)])
    for _ in range(rows):
        picked = words[(len(words) * random.random(77) ** 3).astype(int)]
        yield f"{' '.join(picked)}\n".encode()
