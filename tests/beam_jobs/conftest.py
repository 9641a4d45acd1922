"""Small raw data sets, and the conversion of them as a user starts it."""

import dataclasses
import io
import os
import pathlib
import subprocess
import sys
from collections.abc import Callable

import numpy as np
import PIL.Image
import pytest

from pipeline.data.schema import schema as schema_lib
from pipeline.data.schema.feature import Clean
from pipeline.data.schema.feature_types import Categorical, Image, Label, Numeric
from pipeline.data.schema.schema import Schema

ROOT = pathlib.Path(__file__).parents[2]
DATA = os.environ.get("PENSTOCK_DATA")
needs_data = pytest.mark.skipif(not DATA, reason="PENSTOCK_DATA is not set: no real data to convert")

PEOPLE = Schema(
    name="people",
    features=(
        Numeric(name="age", number="int64", minimum=0, maximum=150),
        Numeric(name="height", missing="mark", clean=Clean(null_markers=("", "?"))),
        Categorical(name="city", vocabulary=("Bern", "Zürich"), unknown="reject"),
        Label(name="rich", classes=("no", "yes")),
    ),
)
FRUIT = Schema(
    name="fruit",
    features=(
        Image(name="image", height=4, width=6, channels=3, encoding="png"),
        Label(name="label", classes=("apple", "pear")),
    ),
)


@dataclasses.dataclass(frozen=True)
class Ended:
    """How a binary ended."""

    code: int
    out: str
    err: str


RunBinary = Callable[..., Ended]


@pytest.fixture(scope="session")
def run_binary(warm_python: pathlib.Path) -> RunBinary:
    """Runs a module with flags in a process of its own, as a user does: flags are global to a process."""

    def run(module: str, *flags: object) -> Ended:
        command = [warm_python, "-m", module, *map(str, flags)]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
        return Ended(done.returncode, done.stdout, done.stderr)

    return run


def command(module: str, *flags: object) -> list[str]:
    return [sys.executable, "-m", module, *map(str, flags)]


def people_csv(rows: int = 40) -> bytes:
    """A header and `rows` good rows, every third without a height."""
    cities, answers = ("Bern", "Zürich"), ("no", "yes")
    lines = ["age,height,city,rich"]
    for i in range(rows):
        height = "?" if i % 3 == 0 else f"{1.5 + i / 100}"
        lines.append(f"{20 + i},{height},{cities[i % 2]},{answers[i % 5 == 0]}")
    return "\n".join(lines).encode() + b"\n"


def encoded(pixels: np.ndarray, image_format: str = "PNG") -> bytes:
    file = io.BytesIO()
    PIL.Image.fromarray(pixels).save(file, format=image_format)
    return file.getvalue()


def fruit_pixels(seed: int, *, height: int = 4, width: int = 6) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, (height, width, 3), dtype=np.uint8)


@pytest.fixture
def people(tmp_path: pathlib.Path) -> pathlib.Path:
    """A directory with `people.csv` and its `schema.json`."""
    (tmp_path / "people.csv").write_bytes(people_csv())
    schema_lib.save(PEOPLE, tmp_path / "schema.json")
    return tmp_path


@pytest.fixture
def fruit(tmp_path: pathlib.Path) -> pathlib.Path:
    """A directory with `images/{apple,pear}/*.png` and their `schema.json`."""
    for number in range(12):
        folder = tmp_path / "images" / ("apple", "pear")[number % 2]
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{number}.png").write_bytes(encoded(fruit_pixels(number)))
    schema_lib.save(FRUIT, tmp_path / "schema.json")
    return tmp_path


@pytest.fixture
def convert_people(people: pathlib.Path, run_binary: RunBinary) -> Callable[..., Ended]:
    def convert(*flags: object) -> Ended:
        given = (f"--input={people / 'people.csv'}", f"--output={people / 'out'}", "--format=csv")
        return run_binary("beam_jobs.convert", *given, f"--schema={people / 'schema.json'}", *flags)

    return convert


@pytest.fixture
def convert_fruit(fruit: pathlib.Path, run_binary: RunBinary) -> Callable[..., Ended]:
    def convert(*flags: object) -> Ended:
        given = (f"--input={fruit / 'images'}", f"--output={fruit / 'out'}", "--format=images")
        return run_binary("beam_jobs.convert", *given, f"--schema={fruit / 'schema.json'}", *flags)

    return convert
