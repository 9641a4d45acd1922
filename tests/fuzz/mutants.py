"""Mutated files: number N is the same at any time, whichever others are run."""

import pathlib
import random
import shutil

from tests.fuzz import samples
from tests.fuzz.case import (
    DATASETS,
    PICTURES,
    Case,
    Sound,
    dataset_steps,
    raw_steps,
    source_flags,
    write_pictures,
)
from tests.fuzz.mutations import mutated

_TARGETS = (*samples.FILES, PICTURES, *(f"dataset-{name}" for name in DATASETS for _ in range(3)))


def mutant(number: int, *, seed: int) -> Case:
    """Takes raw formats and datasets in turns."""
    target = _TARGETS[number % len(_TARGETS)]
    name = f"{seed}:{number}-{target}"
    if target.startswith("dataset-"):
        return _of_dataset(name, target.removeprefix("dataset-"))
    # Every second conversion may leave rows out: bad ones have to be told apart then.
    lenient = ("--max_rejected_fraction=1",) if number // len(_TARGETS) % 2 else ()
    steps = raw_steps(target, source=source_flags(target), convert=lenient)
    write = _write_pictures if target == PICTURES else _write_file
    return Case(
        name=name, write=lambda folder, sound: write(folder, target, random.Random(name)), steps=steps
    )


def _write_file(folder: pathlib.Path, target: str, draws: random.Random) -> None:
    (folder / target).write_bytes(mutated(samples.content(target), draws))


def _write_pictures(folder: pathlib.Path, target: str, draws: random.Random) -> None:
    del target
    write_pictures(folder)
    for path in draws.sample(sorted((folder / PICTURES).rglob("*.*")), 3):
        path.write_bytes(mutated(path.read_bytes(), draws))


def _of_dataset(name: str, dataset: str) -> Case:
    def write(folder: pathlib.Path, sound: Sound) -> None:
        draws = random.Random(name)
        shutil.copytree(sound.dataset(dataset), folder / "dataset")
        files = sorted(path for path in (folder / "dataset").rglob("*") if path.is_file())
        path = draws.choice([path for path in files if path.stat().st_size])
        path.write_bytes(mutated(path.read_bytes(), draws))

    return Case(name=name, write=write, steps=dataset_steps)
