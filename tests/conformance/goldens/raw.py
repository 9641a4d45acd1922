"""The made-up data of the goldens: every kind of feature, in a CSV file and a folder of images."""

import csv
import pathlib

import numpy as np
import PIL.Image

from pipeline.data.schema import schema as schema_lib
from pipeline.data.schema.feature_types import Categorical, Image, Label, Numeric, Tensor, Text, Tokens
from pipeline.data.schema.schema import Schema
from tests.conformance.goldens.reading import LABELS_APART

ROWS = 48
_COLOURS = ("red", "green", "blue")
_WORDS = ("water", "pipe", "press", "wheel", "größe")
FIXED_WIDTH = (
    Label(name="label", task="regression"),
    Numeric(name="count", number="int64", missing="default", default=7),
    Numeric(name="size", missing="mark"),
    Categorical(name="colour", vocabulary=_COLOURS, missing="mark"),
    Categorical(name="level", encoding="integer", size=4),
    Tokens(name="tokens", length=3, vocabulary_size=16),
    Tensor(name="matrix", dimensions=(1, 2)),
)
# By layout; a block has no room for what has no fixed width.
SCHEMAS = {
    "rows": Schema(
        name="golden",
        features=(
            *FIXED_WIDTH,
            Categorical(name="place", missing="mark"),
            Categorical(name="code", encoding="hashed", buckets=8),
            Text(name="text", length=4, buckets=16, missing="mark"),
            Image(name="image", height=4, width=4, channels=1, encoding="png"),
        ),
    ),
    "blocks": Schema(
        name="golden",
        features=FIXED_WIDTH,
        ignore=dict.fromkeys(("place", "code", "text", "image"), "no fixed width"),
    ),
}


def write(folder: pathlib.Path) -> None:
    """Writes data.csv, images/ and a schema for each layout."""
    draw = np.random.default_rng(0)
    (folder / "images").mkdir()
    rows = [_row(number, draw, folder) for number in range(ROWS)]
    rows.append(rows[-1] | {"level": "many", "label": ROWS * LABELS_APART})  # which is rejected
    with (folder / "data.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    for layout, schema in SCHEMAS.items():
        schema_lib.save(schema, folder / f"{layout}.json")


def _row(number: int, draw: np.random.Generator, folder: pathlib.Path) -> dict[str, object]:
    image = f"images/{number:02d}.png"
    PIL.Image.fromarray(draw.integers(0, 256, (4, 4), np.uint8)).save(folder / image)
    return {
        "label": number * LABELS_APART,
        "count": "" if number % 9 == 0 else int(draw.integers(0, 1 << 40)),
        "size": "" if number % 7 == 0 else round(float(draw.normal()), 3),
        "colour": ("", *_COLOURS, "pink")[draw.integers(0, 5)],
        "level": draw.integers(0, 4),
        "tokens": " ".join(map(str, draw.integers(0, 16, 3))),
        "matrix": " ".join(map(str, draw.random(2).round(2))),
        "place": ("", "Rome", "Oslo", "Lima, Peru")[draw.integers(0, 4)],
        "code": f"c{draw.integers(0, 20)}",
        "text": " ".join(draw.choice(_WORDS, draw.integers(0, 6))),
        "image": image,
    }
