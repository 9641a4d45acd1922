"""Chicago taxi trips cut into a month of days, some of them as bad as days can be."""

import csv
import datetime
import pathlib
import random
from collections.abc import Callable, Mapping, Sequence

FIRST = datetime.date(2026, 10, 1)
DAYS = 30
ROWS = 500
_LABEL = "big_tipper"

Row = dict[str, str]


def name(day: int) -> str:
    """The span of a day, from 1 on."""
    return str(FIRST + datetime.timedelta(days=day - 1))


class Days:
    """Rows of each day: drawn once, in an order of their own, so that days are alike."""

    def __init__(self, source: pathlib.Path) -> None:
        with source.open(newline="") as file:
            rows = list(csv.DictReader(file))
        random.Random(2026).shuffle(rows)
        self.columns = list(rows[0])
        self._rows = rows

    def of(self, day: int) -> list[Row]:
        return [dict(row) for row in self._rows[(day - 1) * ROWS : day * ROWS]]

    def write(self, root: pathlib.Path, day: int, rows: Sequence[Row]) -> None:
        """Renamed into its place, as whoever delivers data should do."""
        place = root / "raw" / f"date={name(day)}"
        place.mkdir(parents=True, exist_ok=True)
        part = root / "part.csv"
        with part.open("w", newline="") as file:
            writer = csv.DictWriter(file, self.columns)
            writer.writeheader()
            writer.writerows(rows)
        part.rename(place / "trips.csv")


def corrupt(rows: list[Row]) -> list[Row]:
    """Fares that are no numbers, in a tenth of the rows."""
    for row in rows[::10]:
        row["fare"] = "n/a (meter broken)"
    return rows


def in_other_units(rows: list[Row]) -> list[Row]:
    """Fares in cents."""
    for row in rows:
        row["fare"] = str(100 * float(row["fare"])) if row["fare"] else ""
    return rows


def with_new_category(rows: list[Row]) -> list[Row]:
    """A way of paying that nobody has seen, in every tenth row."""
    for row in rows[::10]:
        row["payment_type"] = "Palm Scan"
    return rows


def relabelled(rows: list[Row]) -> list[Row]:
    """The labels say the opposite."""
    for row in rows:
        row[_LABEL] = str(1 - int(row[_LABEL]))
    return rows


REPEATED, LATE, ARRIVES = 15, 18, 20  # a copy of the day before; a day that comes two days later
RELABELLED, CORRECTED = 25, 26  # its labels are corrected in the evening of the next day
CHANGED: Mapping[int, Callable[[list[Row]], list[Row]]] = {
    6: corrupt,
    9: lambda rows: [],
    12: in_other_units,
    22: with_new_category,
    RELABELLED: relabelled,
}
