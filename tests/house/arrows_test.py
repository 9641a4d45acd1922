"""Imports follow the arrows of the house, never in a circle, and keep TensorFlow off Beam's workers."""

import ast
import graphlib
import pathlib
import re
from collections.abc import Iterator, Mapping, Sequence, Set

import pytest

from tests.house.imports import HOUSE, ROOT

# What the files of a room may import: the room itself and the named rooms, with all folders in them. The
# longest path that fits is a file's room.
DATA = {
    "schema": "",
    "images": "",
    "dataset": "schema",
    "origins": "schema dataset",
    "statistics": "schema dataset",
    "reading": "schema dataset",
    "integrity": "schema dataset images reading",
    "preprocessing": "schema dataset statistics images",
    "input": "schema dataset images reading preprocessing",
}
TRAINING = {
    "baselines": "",
    "tasks": "",
    "state": "",
    "loop": "state",
    "engine": "tasks loop state",
    "experiment": "tasks engine state loop",
    "report": "state tasks experiment",
    "launch": "tasks state",
    "observers": "state loop experiment",
    "replay": "tasks state engine experiment report",
    "run": "baselines tasks state loop engine experiment observers report launch replay",
    "parity": "tasks engine state experiment replay",
}
BEAM_JOBS = {
    "cells": "",
    "sources": "cells",
    "schema": "cells sources",
    "checks": "cells sources",
    "launch": "cells sources",
    "conversion": "cells sources checks launch",
    "inference": "cells sources conversion launch",
}
BASE, LIBRARY = "pipeline/base", ("pipeline/base", "pipeline/data")


def rooms(folder: str, arrows: Mapping[str, str], *others: str) -> dict[str, Set[str]]:
    """The rooms in `folder`, each with the rooms beside it that it may import, and with `others`."""
    return {
        f"{folder}/{room}": {*(f"{folder}/{name}" for name in names.split()), *others}
        for room, names in arrows.items()
    }


ARROWS: Mapping[str, Set[str]] = {
    "models": set(),
    "penstock": {"models", "pipeline", "beam_jobs"},  # no room imports it
    "pipeline": {"models", "beam_jobs"},  # retrain starts convert, by its name
    "pipeline/configs": {"pipeline/data/images"},  # the augmentation's settings
    "pipeline/base": set(),
    "pipeline/base/cli": {"pipeline/base", "pipeline/configs"},
    "pipeline/report": {BASE},
    "pipeline/data": {BASE},
    **rooms("pipeline/data", DATA, BASE),
    "pipeline/feed": {*LIBRARY, "pipeline/report"},
    "pipeline/training": {*LIBRARY, "models"},
    **rooms("pipeline/training", TRAINING, *LIBRARY, "pipeline/report", "pipeline/feed", "models"),
    "pipeline/training/baselines": {*LIBRARY, "pipeline/gate"},  # whose intervals they have
    "pipeline/exporting": {*LIBRARY, "pipeline/report", "pipeline/training"},
    "pipeline/forecast": {*LIBRARY, "pipeline/report", "pipeline/feed", "pipeline/training"},
    "pipeline/generation": {*LIBRARY, "pipeline/training", "pipeline/exporting", "models"},
    "pipeline/serving": {*LIBRARY, "pipeline/report", "pipeline/exporting"},
    "pipeline/publishing": {*LIBRARY},
    "pipeline/publishing/remote": {*LIBRARY, "pipeline/publishing"},
    "pipeline/gate": {BASE},
    "pipeline/retraining": {"pipeline"},
    "beam_jobs": {*LIBRARY, "pipeline/report"},
    **rooms("beam_jobs", BEAM_JOBS, *LIBRARY, "pipeline/report"),
    "deploy": {*LIBRARY},
    # Its config of retraining begins with the shared one; its server says what is wrong with a picture.
    "demo": {"pipeline/base", "pipeline/configs", "pipeline/data"},
    "examples": {"pipeline/configs"},  # configs to copy
}
FREE = ("tests", "benchmarks")  # may import anything; nothing else may import them

# Seconds and gigabytes that a Beam worker has no use for.
NOT_ON_A_WORKER = ("tensorflow", "keras", "tensorflow_datasets")

# Files of flags that several binaries have, each declared once.
SHARED_FLAGS = ("beam_jobs/sources/flags.py",)
# Defines --config for the commands that have one, and nothing when it is imported.
LIKE_FLAGS = ("pipeline/base/cli/config.py",)


def paths() -> list[str]:
    return sorted(HOUSE.modules.values())


def room(path: str) -> str:
    fitting = [name for name in (*ARROWS, *FREE) if path.startswith(f"{name}/")]
    assert fitting, f"{path} stands in no room: add its folder to ARROWS"
    return max(fitting, key=len)


def may_import(importing: str, imported: str) -> bool:
    """Whether the files of one room may import those of another."""
    allowed = {importing, *ARROWS[importing]}
    return any(imported == name or imported.startswith(f"{name}/") for name in allowed)


def both_ways(arrows: Set[tuple[str, str]]) -> Iterator[str]:
    """Pairs of rooms that import each other, of (importing, imported) pairs."""
    return (f"{one} and {other}" for one, other in sorted(arrows) if one < other and (other, one) in arrows)


def test_imports_follow_the_arrows():
    against = [
        f"{path} imports {imported}, but {room(path)} may import only {sorted(ARROWS[room(path)])}"
        for path in paths()
        if room(path) not in FREE
        for imported in HOUSE.ours(path)
        if not may_import(room(path), room(imported))
    ]
    assert not against, "\n".join(against)


def test_no_two_rooms_import_each_other():
    arrows = {(room(path), room(imported)) for path in paths() for imported in HOUSE.ours(path)}
    assert not list(both_ways(arrows))


def test_rooms_that_import_each_other_are_named():
    assert list(both_ways({("a", "b"), ("b", "a"), ("b", "c")})) == ["a and b"]


def test_an_arrow_against_the_direction_is_found():
    assert not may_import("pipeline/data/dataset", "pipeline/data/reading")
    assert not may_import("beam_jobs/cells", "beam_jobs/sources")
    assert may_import("beam_jobs/schema", "beam_jobs/sources")


def test_nobody_imports_in_a_circle():
    try:
        graphlib.TopologicalSorter({path: HOUSE.ours(path) for path in paths()}).prepare()
    except graphlib.CycleError as error:
        pytest.fail("imports in a circle: " + " <- ".join(error.args[1]))


def test_no_beam_worker_imports_tensorflow():
    ahead = [path for path in paths() if path.startswith("beam_jobs/")]
    reached = {path: path for path in ahead}
    heavy = []
    while ahead:
        here = ahead.pop()
        heavy += [
            f"{reached[here]} imports {one.module}: import it inside the function that needs it"
            for one in HOUSE.imports[here]
            if one.eager and one.module.partition(".")[0] in NOT_ON_A_WORKER
        ]
        for following in HOUSE.ours(here, eager_only=True) - reached.keys():
            reached[following] = f"{reached[here]} -> {following}"
            ahead.append(following)
    assert not heavy, "\n".join(heavy)


def test_flags_are_defined_in_binaries_only():
    may = {*SHARED_FLAGS, *LIKE_FLAGS}
    others = [path for path in paths() if not path.startswith(FREE) and path not in may]
    defined = [
        f"{path} is no binary but has {found[0]}"
        for path in others
        if not HOUSE.is_command(path)
        and (found := re.findall(r"\bDEFINE_\w+\(.*", (ROOT / path).read_text()))
    ]
    assert not defined, "\n".join(defined)


def test_nobody_imports_a_binary_with_flags():
    """One process has one set of flags: two binaries in it may define the same one, which absl refuses."""
    binaries = {path for path in paths() if HOUSE.is_command(path)}
    with_flags = {path for path in binaries if "DEFINE_" in _imported_text(path)}
    importing = [
        f"{path} imports {sorted(found)}: move what it needs into a file without flags"
        for path in paths()
        if path not in binaries and (found := with_flags & HOUSE.ours(path, eager_only=True))
    ]
    assert not importing, "\n".join(importing)


def _imported_text(path: str) -> str:
    """What runs when the file is imported: flags that are defined below `__main__` are not there then."""
    return (ROOT / path).read_text().partition("\nif __name__ ==")[0]


# `ls` tells the story: commands and folders at the top, and each folder says what it is for.

PRODUCT = ("beam_jobs", "models", "penstock", "pipeline")
OF_COMMANDS = ("beam_jobs", "pipeline")  # where only commands and folders stand
MOST_LINES = 5  # of what a folder says of itself


def product() -> list[str]:
    """Every tracked Python file of the product."""
    known = HOUSE.files
    return [path for path in known if path.startswith(tuple(f"{room}/" for room in PRODUCT))]


def violations(paths: Sequence[str], *, commands: Sequence[str]) -> Iterator[str]:
    """What is out of order among `paths`, a line each; `commands` are those that can be run."""
    for folder in dict.fromkeys(str(pathlib.PurePath(path).parent) for path in paths):
        if f"{folder}/__init__.py" not in paths:
            yield f"{folder} has no __init__.py that says what it is for"
    for path in paths:
        folder, _, name = path.rpartition("/")
        if folder in OF_COMMANDS and path not in commands and name != "__init__.py":
            yield f"{path} is no command: move it into a folder of {folder}"


def folders() -> list[str]:
    return [path for path in product() if path.endswith("__init__.py")]


def test_the_house_is_in_order():
    commands = [path for path in product() if HOUSE.is_command(path)]
    assert list(violations(product(), commands=commands)) == []


def test_a_planted_violation_is_named():
    stray = ["pipeline/__init__.py", "pipeline/train.py", "pipeline/helpers.py", "pipeline/odd/one.py"]
    assert list(violations(stray, commands=["pipeline/train.py"])) == [
        "pipeline/odd has no __init__.py that says what it is for",
        "pipeline/helpers.py is no command: move it into a folder of pipeline",
    ]


def test_folders_say_what_they_are_for():
    texts = {path: ast.get_docstring(ast.parse((ROOT / path).read_text())) for path in folders()}
    lines = {path: len([line for line in (text or "").splitlines() if line]) for path, text in texts.items()}
    wrong = [f"{path}: {count} lines" for path, count in lines.items() if not 0 < count <= MOST_LINES]
    assert not wrong, f"expected 1 to {MOST_LINES} lines of docstring:\n" + "\n".join(wrong)
