"""Thirty days of taxi trips, `reconcile` five times a day, and a person who answers when asked."""

import dataclasses
import datetime
import json
import pathlib
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence

from pipeline.publishing import versions
from tests.retraining import taxi_days
from tests.retraining.taxi_days import ARRIVES, CHANGED, CORRECTED, LATE, RELABELLED, REPEATED, Days
from tests.shared.table import show

_HOURS = (6, 10, 14, 18, 22)
_CONFIG = "tests/retraining/taxi_retraining.py"
NOTHING, HELD = "nothing", "held"
_LIKELY = {"PROMOTE", "UNDECIDED"}  # of a model that was trained on sound data

# What each planted day must come to, and the words that must explain it. Others: a decision of _LIKELY.
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
    told: str
    seconds: float


def run(data: pathlib.Path, folder: pathlib.Path, *, last: int) -> list[str]:
    """Plays the month until day `last`; returns what was not as expected."""
    root, days, ticks, faults = folder / "month", Days(_source(data)), [], []
    root.mkdir(parents=True)
    _infer_schema(data, root)
    began = time.monotonic()
    for day in range(1, last + 1):
        _deliver(days, root, day)
        today = [_tick(root, day, hour) for hour in _HOURS]
        ticks += today
        faults += _judge_day(day, today)
        print(_line(day, today), flush=True)
        faults += _answer(days, root, day, today)
    print(f"\n{len(ticks)} calls in {(time.monotonic() - began) / 60:.1f} minutes", flush=True)
    return [*faults, *_judge_month(root, ticks)]


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
        told=done.stdout + done.stderr,
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
        taxi_days.FIRST + datetime.timedelta(days=day - 1), datetime.time(hour, minute)
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
        yield f"day {day} came to {first.came}, not to {' or '.join(sorted(expected))}:\n{first.told}"
    if words not in first.told:
        yield f"day {day} does not say '{words}':\n{first.told}"
    again = HELD if first.came == HELD else NOTHING
    yield from (
        f"day {day}, {tick.hour}:00: {tick.came}, not {again}:\n{tick.told}"
        for tick in others
        if tick.came != again
    )


def _answer(days: Days, root: pathlib.Path, day: int, today: Sequence[Tick]) -> Iterator[str]:
    """What a person does in the evening: has the data corrected, or lets pass what was held."""
    if day == CORRECTED:
        days.write(root, RELABELLED, days.of(RELABELLED))
    if today[-1].came != HELD:
        return
    if CHANGED[day] is taxi_days.in_other_units:
        days.write(root, day, days.of(day))
    done = _retrain(root, _at(day, 23), "release", "--reason=a person has looked")
    if done.returncode:
        yield f"day {day}: release failed: {done.stderr}"


def _line(day: int, today: Sequence[Tick]) -> str:
    first = today[0]
    told = [line.strip() for line in first.told.splitlines() if line.startswith("  ")]
    why = told[0 if first.came == NOTHING else -1] if told else ""
    calls = sum(tick.seconds for tick in today[1:]) / len(today[1:])
    return f"day {day:2}  {first.came:<10} {first.seconds:5.0f} s, others {calls:.1f} s  {why[:110]}"


def _judge_month(root: pathlib.Path, ticks: Sequence[Tick]) -> Iterator[str]:
    """Every version is whole, each cycle ended, and status says what happened."""
    told = root / "status.json"
    done = _retrain(root, _at(ticks[-1].day, 23, 30), "status", f"--json={told}")
    print(f"\n$ pipeline.retrain status\n{done.stdout}")
    document = json.loads(told.read_text())
    decisions = [cycle["decision"] for cycle in document["cycles"]]
    show([{decision: decisions.count(decision) for decision in sorted(set(decisions))}])
    serving = root / "serving" / "taxi"
    for version in versions.numbers(serving):
        versions.check(serving, version)  # raises where a byte is missing
    if (promoted := decisions.count("PROMOTE")) != len(versions.numbers(serving)):
        yield f"{promoted} promotions, but {len(versions.numbers(serving))} versions"
    counted = [tick.came for tick in ticks if tick.came not in (NOTHING, HELD)]
    if counted != decisions:
        yield f"reconcile told of {counted}, status of {decisions}"
