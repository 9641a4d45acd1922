"""Thirty days of taxi trips, `reconcile` five times a day, and a person who answers.

  python -m tests.soak.month --data=DIR --days=7

One day is corrupt, one empty, one in other units, one repeated, one late, one with a new category, one
relabelled. Each comes to what is expected.
"""

import csv
import dataclasses
import datetime
import json
import pathlib
import random
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence

from absl import flags

from pipeline.publishing import versions
from tests.soak import harness
from tests.soak.harness import Row, Soak, needs_data

_HOURS = (6, 10, 14, 18, 22)
_CONFIG = "tests/soak/taxi_retraining.py"
NOTHING, HELD = "nothing", "held"
_LIKELY = {"PROMOTE", "UNDECIDED"}  # of a model that was trained on sound data

# What each bad day must come to, and the words that must explain it. Others: a decision of _LIKELY.
EXPECTED = {
    1: ({NOTHING}, "1 span can be used"),
    2: ({"PROMOTE"}, "the prior's"),
    6: ({NOTHING}, "fare"),
    9: ({NOTHING}, "no rows"),
    12: ({HELD}, "feature 'fare' moved"),
    15: ({NOTHING}, "it repeats span 2026-10-14"),
    18: ({NOTHING}, "1 new span needed, 0 there"),
    25: ({HELD}, "feature 'big_tipper' moved"),
    26: ({"REJECT"}, "worse by more than chance"),  # a person let the labels of day 25 pass
    27: (_LIKELY, "span 2026-10-25 is not what cycle"),  # and had them corrected after the rejection
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Tick:
    """One call of reconcile. `came` is nothing, held, a decision, or the exit code of a failure."""

    day: int
    hour: int
    came: str
    output: str
    seconds: float


FIRST = datetime.date(2026, 10, 1)
ROWS = 500
_LABEL = "big_tipper"

Cells = dict[str, str]


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

    def of(self, day: int) -> list[Cells]:
        return [dict(row) for row in self._rows[(day - 1) * ROWS : day * ROWS]]

    def write(self, root: pathlib.Path, day: int, rows: Sequence[Cells]) -> None:
        """Renamed into its place, as whoever delivers data should do."""
        place = root / "raw" / f"date={name(day)}"
        place.mkdir(parents=True, exist_ok=True)
        part = root / "part.csv"
        with part.open("w", newline="") as file:
            writer = csv.DictWriter(file, self.columns)
            writer.writeheader()
            writer.writerows(rows)
        part.rename(place / "trips.csv")


def corrupt(rows: list[Cells]) -> list[Cells]:
    """Fares that are no numbers, in a tenth of the rows."""
    for row in rows[::10]:
        row["fare"] = "n/a (meter broken)"
    return rows


def in_other_units(rows: list[Cells]) -> list[Cells]:
    """Fares in cents."""
    for row in rows:
        row["fare"] = str(100 * float(row["fare"])) if row["fare"] else ""
    return rows


def with_new_category(rows: list[Cells]) -> list[Cells]:
    """A way of paying that nobody has seen, in every tenth row."""
    for row in rows[::10]:
        row["payment_type"] = "Palm Scan"
    return rows


def relabelled(rows: list[Cells]) -> list[Cells]:
    """The labels say the opposite."""
    for row in rows:
        row[_LABEL] = str(1 - int(row[_LABEL]))
    return rows


REPEATED, LATE, ARRIVES = 15, 18, 20  # a copy of the day before; a day that comes two days later
RELABELLED, CORRECTED = 25, 26  # its labels are corrected in the evening of the next day
CHANGED: Mapping[int, Callable[[list[Cells]], list[Cells]]] = {
    6: corrupt,
    9: lambda rows: [],
    12: in_other_units,
    22: with_new_category,
    RELABELLED: relabelled,
}


def faults(soak: Soak) -> Iterator[str]:
    """Plays the month; what was not as expected."""
    root, days, ticks = soak.folder / "month", Days(_source(soak.data)), []
    root.mkdir()
    _infer_schema(soak.data, root)
    for day in range(1, flags.FLAGS.days + 1):
        _deliver(days, root, day)
        today = [_tick(root, day, hour) for hour in _HOURS]
        ticks += today
        yield from _judge_day(day, today)
        print(_line(day, today), flush=True)
        yield from _answer(days, root, day, today)
    yield from _judge_month(root, ticks)


def _source(data: pathlib.Path) -> pathlib.Path:
    return data / "chicago_taxi" / "data_big_tipper.csv"


def _infer_schema(data: pathlib.Path, root: pathlib.Path) -> None:
    command = ("--label=big_tipper", "--ignore=tips", "--name=taxi", f"--output={root / 'schema.json'}")
    subprocess.run(
        [sys.executable, "-m", "beam_jobs.infer_schema", f"--input={_source(data)}", *command],
        check=True,
        stdout=subprocess.DEVNULL,
    )


def _deliver(days: Days, root: pathlib.Path, day: int) -> None:
    """Writes what arrives on a day."""
    if day == LATE:
        return
    rows = days.of(day - 1 if day == REPEATED else day)
    days.write(root, day, CHANGED[day](rows) if day in CHANGED else rows)
    if day == ARRIVES:
        days.write(root, LATE, days.of(LATE))


def _tick(root: pathlib.Path, day: int, hour: int) -> Tick:
    began = time.monotonic()
    done = _retrain(root, _at(day, hour), "reconcile")
    return Tick(
        day=day,
        hour=hour,
        came=_came(done),
        output=done.stdout + done.stderr,
        seconds=time.monotonic() - began,
    )


def _retrain(root: pathlib.Path, at: str, *arguments: str) -> subprocess.CompletedProcess:
    command = [sys.executable, "-m", "pipeline.retrain", *arguments]
    return subprocess.run(
        [*command, f"--config={_CONFIG}", f"--root={root}", f"--now={at}"],
        capture_output=True,
        text=True,
        check=False,
    )


def _at(day: int, hour: int, minute: int = 0) -> str:
    return datetime.datetime.combine(
        FIRST + datetime.timedelta(days=day - 1), datetime.time(hour, minute)
    ).isoformat()


def _came(done: subprocess.CompletedProcess) -> str:
    if done.returncode:
        return f"exit code {done.returncode}"
    last = [line for line in done.stdout.splitlines() if not line.startswith("  ")][-1]
    if last.startswith("cycle "):
        return last.split(": ")[1].split(",")[0]
    return NOTHING if last.startswith("nothing") else HELD


def _judge_day(day: int, today: Sequence[Tick]) -> Iterator[str]:
    """The first call must come to what is expected, the others must have nothing to do."""
    expected, words = EXPECTED.get(day, (_LIKELY, ""))
    first, *others = today
    if first.came not in expected:
        yield f"day {day} came to {first.came}, not to {' or '.join(sorted(expected))}:\n{first.output}"
    if words not in first.output:
        yield f"day {day} does not say '{words}':\n{first.output}"
    again = HELD if first.came == HELD else NOTHING
    yield from (
        f"day {day}, {tick.hour}:00: {tick.came}, not {again}:\n{tick.output}"
        for tick in others
        if tick.came != again
    )


def _answer(days: Days, root: pathlib.Path, day: int, today: Sequence[Tick]) -> Iterator[str]:
    """What a person does in the evening: has the data corrected, or lets pass what was held."""
    if day == CORRECTED:
        days.write(root, RELABELLED, days.of(RELABELLED))
    if today[-1].came != HELD:
        return
    if CHANGED[day] is in_other_units:
        days.write(root, day, days.of(day))
    done = _retrain(root, _at(day, 23), "release", "--reason=a person has looked")
    if done.returncode:
        yield f"day {day}: release failed: {done.stderr}"


def _line(day: int, today: Sequence[Tick]) -> str:
    first = today[0]
    reasons = [line.strip() for line in first.output.splitlines() if line.startswith("  ")]
    why = reasons[0 if first.came == NOTHING else -1] if reasons else ""
    calls = sum(tick.seconds for tick in today[1:]) / len(today[1:])
    return f"day {day:2}  {first.came:<10} {first.seconds:5.0f} s, others {calls:.1f} s  {why[:110]}"


def _judge_month(root: pathlib.Path, ticks: Sequence[Tick]) -> Iterator[str]:
    """Every version is whole, each cycle ended, and status says what happened."""
    document_file = root / "status.json"
    done = _retrain(root, _at(ticks[-1].day, 23, 30), "status", f"--json={document_file}")
    print(f"\n$ pipeline.retrain status\n{done.stdout}")
    document = json.loads(document_file.read_text())
    decisions = [cycle["decision"] for cycle in document["cycles"]]
    print({decision: decisions.count(decision) for decision in sorted(set(decisions))})
    serving = root / "serving" / "taxi"
    for version in versions.numbers(serving):
        versions.check(serving, version)  # raises where a byte is missing
    if (promoted := decisions.count("PROMOTE")) != len(versions.numbers(serving)):
        yield f"{promoted} promotions, but {len(versions.numbers(serving))} versions"
    counted = [tick.came for tick in ticks if tick.came not in (NOTHING, HELD)]
    if counted != decisions:
        yield f"reconcile printed {counted}, status of {decisions}"


ROWS = (
    Row(
        name="month",
        sentence="Retrains for a month on good and bad days: each comes to what is expected.",
        faults=faults,
        lacks=needs_data,
    ),
)


if __name__ == "__main__":
    flags.DEFINE_integer("days", 30, "How many days are played.", 1, 30)
    harness.run(lambda: ROWS)
