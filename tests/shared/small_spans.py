"""Raw spans of a small table that can be learned: a folder a day, CSV, with the schema of all."""

import csv
import datetime
import pathlib

import numpy as np

from pipeline.data.schema import schema as schema_lib
from pipeline.data.schema.feature_types import Categorical, Label, Numeric
from pipeline.data.schema.schema import Schema

FIRST = datetime.date(2026, 11, 1)
COLUMNS = ("distance", "company", "tipped")
COMPANIES = ("Blue", "Green", "Red")
SCHEMA = Schema(
    name="trips",
    features=(
        Numeric(name="distance"),
        Categorical(name="company"),
        Label(name="tipped", classes=("no", "yes")),
    ),
)


def write_schema(root: pathlib.Path) -> None:
    root.mkdir(parents=True, exist_ok=True)
    schema_lib.save(SCHEMA, root / "schema.json")


def day(number: int) -> str:
    """The name of a span, such as 2026-11-01 for 0."""
    return str(FIRST + datetime.timedelta(days=number))


def folder(root: pathlib.Path, name: str) -> pathlib.Path:
    return root / "raw" / f"date={name}"


def write_span(
    root: pathlib.Path,
    number: int,
    *,
    rows: int = 240,
    flipped: bool = False,
    scale: float = 1.0,
    noise: float = 1.0,
    companies: tuple[str, ...] = COMPANIES,
) -> str:
    """Writes the raw data of a day; returns the span's name.

    Args:
      flipped: whether the labels say the opposite.
      scale: what distances are multiplied by.
      noise: of the log odds, their standard deviation.
    """
    random = np.random.default_rng([number, rows])
    distance = random.normal(3.0, 1.0, rows)
    company = random.choice(np.array(companies), rows)
    odds = 3.0 * (distance - 3.0) + np.where(company == "Red", 1.5, -0.5) + random.normal(0, noise, rows)
    tipped = (odds > 0) != flipped
    lines = zip(
        (f"{value * scale:.4f}" for value in distance), company, np.where(tipped, "yes", "no"), strict=True
    )
    name = day(number)
    write_rows(root, name, list(lines))
    return name


def write_rows(root: pathlib.Path, name: str, rows: list) -> pathlib.Path:
    """Writes the file of a span, renamed into its place."""
    place = folder(root, name)
    place.mkdir(parents=True, exist_ok=True)
    written = root / "part.csv"
    with written.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(COLUMNS)
        writer.writerows(rows)
    return written.rename(place / "trips.csv")
