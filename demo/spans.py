"""Writes a day of made-up taxi trips as a nightly export would: `<output>/date=2026-11-03/trips.csv`.

  python demo/spans.py --day=3 --output=build/demo-retrain/raw

1,500 trips with fare, miles, minutes, hour, payment and company; whether the tip was big follows from them
and some chance. So a model can learn it, and no model can know it all. On the fourth day the miles are
metres. The same day gives the same bytes.
"""

import csv
import io
import pathlib
from collections.abc import Sequence

import numpy as np
from absl import app, flags

_DAY = flags.DEFINE_integer("day", None, "Which day of November 2026.", 1, 30, required=True)
_OUTPUT = flags.DEFINE_string("output", None, "Directory to write to.", required=True)

TRIPS = 1500
BAD_DAY = 4
METRES_IN_A_MILE = 1609.344
COLUMNS = ("fare", "miles", "minutes", "hour", "payment", "company", "big_tip")
PAYMENTS, COMPANIES = ("card", "cash", "app"), ("Blue", "Checker", "Flash", "Sun")
GENEROUS = {"card": 1.0, "cash": -2.0, "app": 2.0}  # log odds of a big tip


def name_of(day: int) -> str:
    """The span's name, and the folder's behind `date=`."""
    return f"2026-11-{day:02d}"


def trips(day: int) -> list[tuple]:
    """The rows of a day, values as in COLUMNS."""
    random = np.random.default_rng(day)
    miles = random.gamma(2.0, 2.0, TRIPS) + 0.3
    minutes = miles * random.uniform(2.0, 6.0, TRIPS) + 2
    fare = 3.0 + 2.2 * miles + 0.3 * minutes
    hour = random.integers(0, 24, TRIPS)
    payment = random.choice(PAYMENTS, TRIPS, p=(0.5, 0.3, 0.2))
    company = random.choice(COMPANIES, TRIPS)
    odds = np.array([GENEROUS[each] for each in payment]) + 1.5 * np.cos((hour - 20) * np.pi / 12)
    odds += 0.12 * (miles - 4) - 0.6 * (minutes / miles - 4.5)
    tip = np.where(odds + random.logistic(0, 0.6, TRIPS) > 0, "yes", "no")
    told = miles * METRES_IN_A_MILE if day == BAD_DAY else miles
    columns = (fare.round(2), told.round(2), minutes.round(1), hour, payment, company, tip)
    return list(zip(*(column.tolist() for column in columns), strict=True))


def write_day(output: pathlib.Path, day: int) -> pathlib.Path:
    """Writes the folder of a day, whole or not at all: retraining may look at any moment."""
    folder = output / f"date={name_of(day)}"
    if folder.exists():
        return folder
    text = io.StringIO()
    rows = csv.writer(text, lineterminator="\n")
    rows.writerow(COLUMNS)
    rows.writerows(trips(day))
    draft = output / f".{folder.name}"
    draft.mkdir(parents=True, exist_ok=True)
    (draft / "trips.csv").write_text(text.getvalue())
    return draft.rename(folder)


def main(_: Sequence[str]) -> None:
    folder = write_day(pathlib.Path(_OUTPUT.value), _DAY.value)
    print(f"{TRIPS:,} trips in {folder}")


if __name__ == "__main__":
    app.run(main)
