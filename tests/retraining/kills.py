"""Kills a process that retrains, at every stage and at random moments, and lets another one go on."""

import contextlib
import dataclasses
import hashlib
import json
import pathlib
import random
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator

import numpy as np

from pipeline.base import tensorflow_start  # noqa: F401 - before TensorFlow

# isort: split
import tensorflow as tf

from pipeline.base.errors import InputError
from pipeline.publishing import versions
from tests.retraining import small_retraining
from tests.shared import small_spans, warm

CONFIG = "tests/retraining/small_retraining.py"
STAGES = ("data", "train", "export", "parity", "evaluate", "infra", "decide", "publish", "verify", "gc")
_DAYS = 5  # of the story: two spans first, then one a day
_BUSY = 75
_SECONDS = 600  # in which a call that is not killed must end
_MEASURED = {"at", "seconds"}
_VARIABLES = "variables/"  # `_all_variables` holds the same ones again, in the order of a set


@dataclasses.dataclass(frozen=True, kw_only=True)
class Stage:
    """Where the checks run: `python` is a warm one, `undisturbed` the root of an undisturbed story."""

    folder: pathlib.Path
    python: pathlib.Path
    undisturbed: pathlib.Path
    seconds: float  # of a cycle

    def start(self, root: pathlib.Path, *arguments: str, dies: str = "-") -> subprocess.Popen:
        return _start(self.python, root, *arguments, dies=dies)


@contextlib.contextmanager
def prepared(folder: pathlib.Path) -> Iterator[Stage]:
    """Tells the story once, undisturbed."""
    with warm.python(folder / "warm") as python:
        root, seconds = folder / "undisturbed", []
        for day in range(2, _DAYS + 1):
            deliver(root, day)
            began = time.monotonic()
            code, told = ended(_start(python, root, "reconcile"))
            seconds.append(time.monotonic() - began)
            if code:
                sys.exit(f"error: the undisturbed story fails with exit code {code}:\n{told}")
        print(f"undisturbed: {state(root)['decisions']}, {max(seconds):.0f} s a cycle", flush=True)
        yield Stage(folder=folder, python=python, undisturbed=root, seconds=statistics.median(seconds))


def at_every_stage(stage: Stage) -> Iterator[str]:
    """Kills the second cycle before and behind each of its stages."""
    first = stage.folder / "first"
    deliver(first, 2)
    ended(stage.start(first, "reconcile"))
    expected = stage.folder / "second"
    _second(stage, first, expected, dies="-")
    for name in STAGES:
        for moment in ("before", "behind"):
            root = stage.folder / f"{name}-{moment}"
            code = _second(stage, first, root, dies=f"{name}:{moment}")
            found = [*half_done(root, {})]
            again, told = ended(stage.start(root, "reconcile"))
            found += [*half_done(root, {})]
            if code != -9:
                found.append(f"exit code {code}, not -9")
            if again:
                found.append(f"the next call failed with {again}: {told}")
            found += differences(state(root), state(expected))
            print(f"killed {moment} {name:<9} {found or 'ok'}", flush=True)
            yield from (f"killed {moment} {name}: {fault}" for fault in found)
            shutil.rmtree(root)


def _second(stage: Stage, first: pathlib.Path, root: pathlib.Path, *, dies: str) -> int:
    shutil.copytree(first, root)
    deliver(root, 3)
    return ended(stage.start(root, "reconcile", dies=dies))[0]


def at_random(stage: Stage, *, kills: int, seed: int) -> Iterator[str]:
    """Tells the story again and again under kills until there were `kills` of them."""
    draw, killed, stories = random.Random(seed), 0, 0
    where: dict[str, int] = {}
    while killed < kills:
        root, seen = stage.folder / f"story-{stories}", {}
        for day in range(2, _DAYS + 1):
            deliver(root, day)
            while True:
                process = stage.start(root, "reconcile")
                seconds = draw.uniform(0, 0.6 * stage.seconds) if killed < kills else _SECONDS
                code, told = ended(process, seconds=seconds)
                yield from (f"story {stories}, day {day}: {fault}" for fault in half_done(root, seen))
                if code == 0:
                    break
                if code == _BUSY:  # what was killed has children that end a moment later
                    continue
                if code != -9:
                    yield f"story {stories}, day {day}: exit code {code}: {told}"
                    return
                killed += 1
                at = _stage_of(root)
                where[at] = where.get(at, 0) + 1
        told = differences(state(root), state(stage.undisturbed))
        yield from (f"story {stories}: {difference}" for difference in told)
        print(f"story {stories}: {killed} kills so far, in {where}", flush=True)
        shutil.rmtree(root)
        stories += 1


def half_done(root: pathlib.Path, seen: dict[int, str]) -> Iterator[str]:
    """What is wrong with what is served; `seen` has the digests of versions served before, and gets these."""
    serving = root / "serving" / small_retraining.NAME
    cycles = []
    for number in versions.numbers(serving) if serving.is_dir() else []:
        try:
            document = versions.check(serving, number)
        except InputError as error:
            yield f"half published: {error}"
            continue
        cycles.append(document["cycle"])
        if seen.setdefault(number, document["digest"]) != document["digest"]:
            yield f"version {number} is another than before"
    if len(cycles) != len(set(cycles)):
        yield f"a cycle has two versions: {cycles}"


def state(root: pathlib.Path) -> dict[str, object]:
    """What must not depend on kills: decisions with their numbers, versions, and weights to the last bit."""
    serving = root / "serving" / small_retraining.NAME
    receipts = [
        (path.parent.name, json.loads(path.read_text())) for path in root.glob("cycles/*/decide.json")
    ]
    ends = {path.parent.name: json.loads(path.read_text()) for path in root.glob("cycles/*/ended.json")}
    published = {
        number: (versions.published(serving, number)["cycle"], _weights(serving / str(number)))
        for number in (versions.numbers(serving) if serving.is_dir() else [])
    }
    return {
        "decisions": sorted(each["decision"] for each in ends.values()),
        "ended": {cycle: (each["decision"], each["version"]) for cycle, each in ends.items()},
        "verdicts": {cycle: _without_times(said) for cycle, said in receipts},
        "published": published,
        "begun": sorted(path.parent.name for path in root.glob("cycles/*/plan.json")),
    }


def differences(found: dict[str, object], wanted: dict[str, object]) -> list[str]:
    """What ends otherwise than in the undisturbed root."""
    return [
        f"{key} end otherwise than undisturbed: {found[key]} instead of {wanted[key]}"
        for key in wanted
        if found[key] != wanted[key]
    ]


def _weights(version: pathlib.Path) -> str:
    """A hash over the values of all variables: the file also has what libraries order by chance."""
    reader = tf.train.load_checkpoint(str(version / "variables" / "variables"))
    digest = hashlib.sha256()
    names = [name for name in reader.get_variable_to_shape_map() if name.startswith(_VARIABLES)]
    assert names, f"{version} has no variables"
    for name in sorted(names):
        digest.update(f"{name}\0".encode() + np.asarray(reader.get_tensor(name)).tobytes())
    return digest.hexdigest()


def _without_times(said: dict) -> dict:
    return {key: value for key, value in said.items() if key not in {*_MEASURED, "digest"}}


def _stage_of(root: pathlib.Path) -> str:
    """The stage that a kill met."""
    for plan in root.glob("cycles/*/plan.json"):
        if not (plan.parent / "ended.json").exists():
            return next((name for name in STAGES if not (plan.parent / f"{name}.json").exists()), "end")
    return "outside of a cycle"


def deliver(root: pathlib.Path, day: int) -> None:
    """The spans of a day; the first two days come together."""
    if not (root / "schema.json").exists():
        small_spans.write_schema(root)
        small_spans.write_span(root, 0, rows=400)
    small_spans.write_span(root, day - 1, rows=400)


def _start(python: pathlib.Path, root: pathlib.Path, *arguments: str, dies: str = "-") -> subprocess.Popen:
    module = ("-m", "tests.retraining.warm_retrain", str(python), dies)
    return subprocess.Popen(
        [python, *module, *arguments, f"--config={CONFIG}", f"--root={root}"],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def ended(process: subprocess.Popen, *, seconds: float = _SECONDS) -> tuple[int, str]:
    """The exit code and what was printed; killed where it takes longer."""
    try:
        told, _ = process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        process.kill()
        told, _ = process.communicate()
    return process.returncode, told
