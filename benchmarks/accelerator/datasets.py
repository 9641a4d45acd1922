"""Made-up datasets of the checks on an accelerator: a table, pictures, and tokens.

python -m benchmarks.accelerator.datasets FOLDER   # all four that benchmarks/peers/keras_on_jax.py reads
"""

import pathlib
import shutil
import sys

import numpy as np
from PIL import Image as PillowImage

from benchmarks.commands import run_python
from pipeline.data.schema import schema as schema_lib
from pipeline.data.schema.feature_types import Categorical, Image, Label, Numeric
from pipeline.data.schema.schema import Schema

NUMBERS, CATEGORIES, CARDINALITY = 8, 4, 100
CLASSES = ("blue", "green", "red")
SEQUENCE = 128  # tokens of a row
_WORDS = ("the", "cat", "dog", "duck", "says", "moo", "quack", "and", "then", "runs", "home")


def table(folder: pathlib.Path, *, rows: int, layout: str = "blocks") -> pathlib.Path:
    """Numbers and categories; whether the first number is above the second decides nine labels of ten."""
    output = folder / f"table_{layout}"
    if output.exists():
        return output
    draw = np.random.default_rng(0)
    numbers, categories = (
        draw.normal(size=(rows, NUMBERS)),
        draw.integers(CARDINALITY, size=(rows, CATEGORIES)),
    )
    label = (numbers[:, 0] > numbers[:, 1]) ^ (draw.random(rows) < 0.1)
    names = [*(f"number_{i}" for i in range(NUMBERS)), *(f"category_{i}" for i in range(CATEGORIES)), "label"]
    raw, schema = folder / f"{output.name}.csv", folder / f"{output.name}.json"
    folder.mkdir(parents=True, exist_ok=True)
    cells = np.concatenate(
        [numbers.round(4).astype(str), categories.astype(str), label[:, None].astype(int)], 1
    )
    raw.write_text("\n".join(",".join(row) for row in [names, *cells.tolist()]) + "\n")
    features = (
        *(Numeric(name=name) for name in names[:NUMBERS]),
        *(Categorical(name=name, encoding="integer", size=CARDINALITY) for name in names[NUMBERS:-1]),
        Label(name="label", classes=("0", "1")),
    )
    schema_lib.save(Schema(name="table", features=features), schema)
    return _converted(output, f"--input={raw}", f"--schema={schema}", f"--layout={layout}")


def pictures(folder: pathlib.Path, *, count: int, side: int) -> pathlib.Path:
    """JPEGs of noise, square, in which the channel of the class is the brightest."""
    output, raw, schema = folder / "pictures", folder / "jpeg", folder / "pictures.json"
    if output.exists():
        return output
    draw = np.random.default_rng(0)
    shutil.rmtree(raw, ignore_errors=True)
    for number in range(count):
        channel = number % len(CLASSES)
        pixels = draw.integers(0, 128, (side, side, 3), np.uint8)
        pixels[..., len(CLASSES) - 1 - channel] += 80
        path = raw / CLASSES[channel] / f"{number}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        PillowImage.fromarray(pixels).save(path, quality=90)
    image = Image(name="image", height=side, width=side, channels=3, encoding="jpeg")
    label = Label(name="label", task="multiclass", classes=CLASSES)
    schema_lib.save(Schema(name="pictures", features=(image, label)), schema)
    return _converted(output, "--format=images", f"--input={raw}", f"--schema={schema}")


def tokens(folder: pathlib.Path, *, lines: int) -> pathlib.Path:
    """Sentences of a few words, as bytes, packed to rows of `SEQUENCE` tokens."""
    output, raw, schema = folder / "tokens", folder / "tokens.txt", folder / "tokens.json"
    if output.exists():
        return output
    draw = np.random.default_rng(0)
    raw.parent.mkdir(parents=True, exist_ok=True)
    raw.write_text("".join(" ".join(draw.choice(_WORDS, 9)) + ".\n" for _ in range(lines)))
    cut = (f"--input={raw}", "--tokenizer=bytes", f"--sequence_length={SEQUENCE}")
    run_python("-m", "beam_jobs.infer_schema", *cut, f"--output={schema}")
    return _converted(output, *cut, f"--schema={schema}", "--layout=blocks")


def _converted(output: pathlib.Path, *flags: str) -> pathlib.Path:
    run_python("-m", "beam_jobs.convert", *flags, f"--output={output}")
    return output


if __name__ == "__main__":
    place = pathlib.Path(sys.argv[1]).absolute()
    for layout in ("rows", "blocks"):
        table(place, rows=65_536, layout=layout)
    pictures(place, count=2_048, side=96)
    tokens(place, lines=20_000)
