"""What all programs of tests/soak share: a table of cases, chosen by name, and what each found wrong.

`run` reads the flags, runs the chosen cases, prints a line for each fault, and ends with the exit code.
"""

import dataclasses
import os
import pathlib
import random
import shutil
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from typing import NoReturn

from absl import app, flags

from pipeline.base import tensorflow_start  # noqa: F401 - before TensorFlow, which cases import

ROOT = pathlib.Path(__file__).resolve().parents[2]
TRIES = 8  # of something that must come in time, before a case gives up


@dataclasses.dataclass(frozen=True, kw_only=True)
class Soak:
    """What a case gets: an empty folder, how often to do it, chance, and the real data, if they are there."""

    folder: pathlib.Path
    count: int
    seed: int
    data: pathlib.Path | None

    def draw(self, *of: object) -> random.Random:
        """Chance of its own for each thing, the same for a seed."""
        return random.Random(f"{self.seed} {self.folder.name} {of}")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Row:
    """A case: a name, what it holds in one sentence, and what finds the faults."""

    name: str
    sentence: str
    faults: Callable[[Soak], Iterator[str]]
    lacks: Callable[[Soak], str] = lambda soak: ""  # why it cannot run here; empty if it can


def needs_data(soak: Soak) -> str:
    return "" if soak.data else "needs --data"


def run(
    rows: Callable[[], Sequence[Row]],
    *,
    preload: Callable[[], None] = lambda: None,
    times: Callable[[], int] = lambda: 0,
    note: str = "",
) -> NoReturn:
    """Reads the flags, and runs the chosen rows; ends with 1 where there are faults.

    Args:
      preload: called before any case runs, for what runs in forks.
      times: how often each case does what it does; called when flags are read.
      note: printed behind the table of cases.
    """
    flags.DEFINE_list("cases", [], "NAME,…: only these; a name that ends in * stands for many.")
    flags.DEFINE_bool("list", False, "Prints the table of cases, and runs none.")
    flags.DEFINE_integer("seed", 0, "The seed of everything that is drawn.")
    flags.DEFINE_string("data", os.environ.get("PENSTOCK_DATA"), "DIRECTORY: the real data.")
    flags.DEFINE_string("folder", "build/soak", "DIRECTORY: everything lands here, below the case's name.")
    app.run(lambda argv: _main(rows, preload, times(), note))


def _main(rows: Callable[[], Sequence[Row]], preload: Callable[[], None], times: int, note: str) -> int:
    args = flags.FLAGS
    if not args.list:
        preload()
    table = rows()
    if args.list:
        print(*(f"{row.name:<28} {row.sentence}" for row in table), note, sep="\n")
        return 0
    chosen = [row for row in table if not args.cases or any(_fits(row.name, name) for name in args.cases)]
    if unknown := [name for name in args.cases if not any(_fits(row.name, name) for row in table)]:
        print(
            f"error: --cases: received {', '.join(unknown)}; --list prints those there are", file=sys.stderr
        )
        return 2
    described = ["git", "describe", "--always", "--dirty"]
    commit = subprocess.run(described, capture_output=True, text=True, cwd=ROOT).stdout.strip()
    print(f"commit {commit}, seed {args.seed}", flush=True)
    faults = [fault for row in chosen for fault in _faults(row, times)]
    print(f"{len(chosen)} cases, {len(faults)} faults", *faults, sep="\n")
    return int(bool(faults))


def _fits(name: str, pattern: str) -> bool:
    return name.startswith(pattern[:-1]) if pattern.endswith("*") else name == pattern


def _faults(row: Row, times: int) -> Iterator[str]:
    folder = pathlib.Path(flags.FLAGS.folder).resolve() / row.name.replace("/", "_")
    data = pathlib.Path(flags.FLAGS.data) if flags.FLAGS.data else None
    soak = Soak(folder=folder, count=times, seed=flags.FLAGS.seed, data=data)
    if lacks := row.lacks(soak):
        print(f"{row.name}: NOT RUN, {lacks}", flush=True)
        return
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    started, count = time.monotonic(), 0
    for fault in _caught(row.faults(soak)):
        count += 1
        line = f"FAULT {row.name}: {fault}".encode("ascii", "backslashreplace").decode()
        print(line, flush=True)
        yield line
    print(f"{row.name}: {count} faults, {time.monotonic() - started:.0f} s", flush=True)


def _caught(faults: Iterator[str]) -> Iterator[str]:
    """An exception ends the case, and is a fault of it."""
    try:
        yield from faults
    except Exception as error:
        traceback.print_exc()
        yield f"{type(error).__name__}: {error}"
