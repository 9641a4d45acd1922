"""Days of made-up taxi trips, one of them in other units."""

import csv
import io
import pathlib

import numpy as np

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
    recorded = miles * METRES_IN_A_MILE if day == BAD_DAY else miles
    columns = (fare.round(2), recorded.round(2), minutes.round(1), hour, payment, company, tip)
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
