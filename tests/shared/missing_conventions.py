"""Columns in which some cells mean "no value", by conventions that people use.

TOLD: infer_schema names the flag that makes the marker missing. TAKEN: it takes the marker as missing itself.
"""

import datetime
import random
from collections.abc import Callable

ROWS = 400
Draw = Callable[[random.Random], object]


def degrees(chance: random.Random) -> str:
    return f"{chance.gauss(20, 5):.1f}"


def amount(chance: random.Random) -> str:
    return f"{2 + chance.expovariate(1 / 200):.0f}"


def count(chance: random.Random) -> str:
    return str(chance.randint(0, 60))


def sugar(chance: random.Random) -> str:
    return f"{chance.gauss(120, 25):.0f}"


def price(chance: random.Random) -> str:
    return f"${chance.randint(50, 400)}"


def day(chance: random.Random) -> str:
    return str(datetime.date(2020, 1, 1) + datetime.timedelta(days=chance.randint(0, 900)))


def town(chance: random.Random) -> str:
    return chance.choice(["Bern", "Genf", "Basel", "Chur"])


TOLD: list[tuple[Draw, str]] = [
    *((degrees, marker) for marker in ("-200", "-999.25", "9.96921e+36", "-32768", "1e20", "999.9", "65535")),
    *((degrees, marker) for marker in ("-99.99", "2147483647", "-1.7976931348623157e+308")),
    *((amount, "-200"), (count, "-1"), (sugar, "0"), (price, "$-9999")),
    *((day, marker) for marker in ("1900-01-01", "9999-12-31", "1970-01-01", "0001-01-01")),
    *((town, marker) for marker in ("unknown", "None", "-", "Not available", "k.A.", "(blank)")),
]
TAKEN = [(degrees, marker) for marker in ("-9999", "NaN", "n.a.", "#N/A", "-", ".", "keine", "NULL")]


def cells_with(draw: Draw, marker: str, *, share: float = 0.05) -> list[str]:
    """A column in which about that share of the rows, and two at least, holds the marker."""
    chance = random.Random(f"{draw.__name__} {marker}")
    drawn = [marker if chance.random() < share else draw(chance) for _ in range(ROWS)]
    return [marker, marker, *drawn]
