"""Scheduled retraining that is killed in and between its stages, and goes on at the next call."""

import contextlib
import dataclasses
import hashlib
import json
import pathlib
import random
import signal
import sys
from collections.abc import Callable, Iterator, Sequence

from pipeline.base.errors import InputError
from pipeline.publishing import versions
from tests.shared import forked, small_retraining, small_spans, warm
from tests.soak.case import Case, Ended, Generation, Moment
from tests.soak.harness import Soak

CONFIG = "tests/shared/small_retraining.py"
STAGES = ("data", "train", "export", "parity", "evaluate", "infra", "decide", "publish", "verify", "gc")
PLACES = tuple(
    f"{when} pipeline.retraining.cycle:STAGES.{name}" for name in STAGES for when in ("before", "after")
)
_FIRST, _LAST = 2, 5  # days: two spans come first, then one a day
_MEASURED = {"at", "seconds", "digest"}
_VARIABLES = "variables/"  # `_all_variables` holds the same ones again, in the order of a set


@dataclasses.dataclass(frozen=True, kw_only=True)
class RetrainingCase(Case):
    """A call of reconcile a day, until the cycle of the last day has ended."""

    each: int = 6
    again: int = 75  # what was killed has children that end a moment later
    by_wall: bool = True  # it waits for children most of the time
    waits_for_handlers: bool = True

    @contextlib.contextmanager
    def running(self, soak: Soak) -> Iterator[None]:
        (soak.folder / "warm").mkdir()
        with warm.python(soak.folder / "warm") as python:
            before, sys.executable = sys.executable, str(python)  # of the children
            try:
                yield
            finally:
                sys.executable = before

    def bodies(self, generation: Generation) -> Sequence[Callable[[], None]]:
        root = generation.story / "root"
        deliver(root, _day(generation.story))
        arguments = ("pipeline.retrain", "reconcile", f"--config={CONFIG}", f"--root={root}")
        return [lambda: forked.run_module(arguments)]

    def moment(
        self, draw: random.Random, number: signal.Signals, *, cpu_seconds: float, story: pathlib.Path
    ) -> Moment:
        if draw.random() < 0.5:
            return Moment(number=number, place=draw.choice(PLACES))
        return super().moment(draw, number, cpu_seconds=0.6 * cpu_seconds, story=story)

    def faults_of(self, generation: Generation, ended: Ended) -> Iterator[str]:
        yield from super().faults_of(generation, ended)
        seen = generation.story / "seen.json"
        known = json.loads(seen.read_text()) if seen.exists() else {}
        yield from _half_done(generation.story / "root", known)
        seen.write_text(json.dumps(known))

    def has_more(self, story: pathlib.Path) -> bool:
        day = _day(story) + 1
        (story / "day").write_text(str(day))
        return day <= _LAST

    def state(self, made: pathlib.Path, story: pathlib.Path) -> dict[str, object]:
        """Decisions with their numbers, versions, and weights to the last bit."""
        root = story / "root"
        cycles = root / "cycles"
        ends = {path.parent.name: json.loads(path.read_text()) for path in cycles.glob("*/ended.json")}
        decided = {path.parent.name: json.loads(path.read_text()) for path in cycles.glob("*/decide.json")}
        weights = forked.call(lambda: print(json.dumps(_weights(root))), story / "weights", timeout=300)
        return {
            "ended": {cycle: (each["decision"], each["version"]) for cycle, each in sorted(ends.items())},
            "verdicts": {
                cycle: {key: value for key, value in each.items() if key not in _MEASURED}
                for cycle, each in sorted(decided.items())
            },
            "published": json.loads(weights.stdout),
            "begun": sorted(path.parent.name for path in cycles.glob("*/plan.json")),
        }


def _day(story: pathlib.Path) -> int:
    return int((story / "day").read_text()) if (story / "day").exists() else _FIRST


def deliver(root: pathlib.Path, day: int) -> None:
    """The spans of a day; the first two days come together."""
    if not (root / "schema.json").exists():
        small_spans.write_schema(root)
        small_spans.write_span(root, 0, rows=400)
    if not small_spans.folder(root, small_spans.day(day - 1)).exists():
        small_spans.write_span(root, day - 1, rows=400)


def _serving(root: pathlib.Path) -> tuple[pathlib.Path, list[int]]:
    serving = root / "serving" / small_retraining.NAME
    return serving, versions.numbers(serving) if serving.is_dir() else []


def _half_done(root: pathlib.Path, seen: dict[str, str]) -> Iterator[str]:
    """What is wrong with what is served; `seen` has the digests of versions served before, and gets these."""
    serving, numbers = _serving(root)
    cycles = []
    for number in numbers:
        try:
            document = versions.check(serving, number)
        except InputError as error:
            yield f"half published: {error}"
            continue
        cycles.append(document["cycle"])
        if seen.setdefault(str(number), document["digest"]) != document["digest"]:
            yield f"version {number} is another than before"
    if len(cycles) != len(set(cycles)):
        yield f"a cycle has two versions: {cycles}"


def _weights(root: pathlib.Path) -> dict[str, list[str]]:
    """The cycle of each version, and a hash of its variables: the file has what libraries order by chance."""
    import tensorflow as tf

    serving, numbers = _serving(root)
    found = {}
    for number in numbers:
        reader = tf.train.load_checkpoint(str(serving / str(number) / "variables" / "variables"))
        names = sorted(name for name in reader.get_variable_to_shape_map() if name.startswith(_VARIABLES))
        digest = hashlib.sha256()
        for name in names:
            digest.update(f"{name}\0".encode() + reader.get_tensor(name).tobytes())
        found[str(number)] = [
            versions.published(serving, number)["cycle"],
            digest.hexdigest(),
            str(len(names)),
        ]
    return found


CASES = (
    RetrainingCase(
        name="retrain",
        sentence="Retrains on four days, killed in and between stages: decisions and weights as undisturbed.",
    ),
)
