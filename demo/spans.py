"""Writes a day of made-up taxi trips as a nightly export would: `<output>/date=2026-11-03/trips.csv`.

  python -m demo.spans --day=3 --output=build/demo-retrain/raw

1,500 trips with fare, miles, minutes, hour, payment and company; whether the tip was big follows from them
and some chance. So a model can learn it, and no model can know it all. On the fourth day the miles are
metres. The same day gives the same bytes.
"""

import pathlib
from collections.abc import Sequence

from absl import app, flags

from demo import trips

_DAY = flags.DEFINE_integer("day", None, "Which day of November 2026.", 1, 30, required=True)
_OUTPUT = flags.DEFINE_string("output", None, "Directory to write to.", required=True)


def main(_: Sequence[str]) -> None:
    folder = trips.write_day(pathlib.Path(_OUTPUT.value), _DAY.value)
    print(f"{trips.TRIPS:,} trips in {folder}")


if __name__ == "__main__":
    app.run(main)
