"""BUILD files name what each folder imports, and `visibility` allows it: what Bazel checks, without Bazel."""

import fnmatch
from collections.abc import Iterator, Sequence, Set

from tests.house import build_files, imports
from tests.house.imports import HOUSE, folder_of

# These run in environments of their own: no target has them.
ELSEWHERE = (
    "deploy/airflow/*",
    "tests/commands/deploy/elsewhere/*",
    "benchmarks/peers/*",
    "tests/soak/augmentation_peer.py",
)
BY_NAME = {"//beam_jobs", "//pipeline", "//pipeline/configs"}  # commands are started, not imported
BY_MACRO = {"//tests", "@pypi_dev//pytest"}  # tests/defs.bzl adds them
FILES = [path for path in HOUSE.files if not any(fnmatch.fnmatch(path, each) for each in ELSEWHERE)]
# How deep the rooms stand. A room of the product has a BUILD file in each folder, any other has one.
DEPTHS = {
    "beam_jobs": 1,
    "benchmarks": 1,
    "demo": 1,
    "deploy": 1,
    "examples": 1,
    "models": 1,
    "penstock": 1,
    "pipeline": 2,
    "tests/unit": 3,
}


def room(folder: str) -> str:
    parts = folder.split("/")
    depth = DEPTHS.get("/".join(parts[:2])) or DEPTHS.get(parts[0], 2)
    return "/".join(parts[:depth])


def home(path: str) -> str:
    """The folder whose BUILD file has the file."""
    return folder_of(path) if path.startswith(imports.PRODUCT) else room(folder_of(path))


FOLDERS = sorted({home(path) for path in FILES} - {"tests"})


def folders_in(name: str) -> list[str]:
    return [folder for folder in FOLDERS if room(folder) == name != folder]


def label(folder: str, *, importing: str) -> str:
    """The room, for other rooms; `modules` are the files at the top of a room that has folders."""
    if room(folder) != room(importing):
        return f"//{room(folder)}"
    return f"//{folder}:modules" if folders_in(folder) else f"//{folder}"


def imported(files: Sequence[str], *, by: str) -> set[str]:
    """The labels of what these files of a folder import."""
    modules = {one.module for path in files for one in HOUSE.imports[path]}
    folders = {home(own) for module in modules if (own := HOUSE.own(module))} - {by}
    folders |= {
        folder for folder in FOLDERS if f"{folder}/conftest.py" in FILES and by.startswith(f"{folder}/")
    }
    libraries = {build_files.library(module) for module in modules if not HOUSE.own(module)} - {None}
    return {label(folder, importing=by) for folder in folders} | libraries


def written(folder: str) -> set[str]:
    rule = build_files.rule_of(label(folder, importing=folder))
    return {*rule.get("deps", ()), *rule.get("test_deps", ())}


def changes(folder: str, *, have: Set[str], want: Set[str]) -> Iterator[str]:
    """What to change in a BUILD file, a line a label."""
    yield from (f"{folder}/BUILD: add {one}, which a file imports" for one in sorted(want - have - BY_MACRO))
    yield from (f"{folder}/BUILD: drop {one}, which no file imports" for one in sorted(have - want - BY_NAME))
    own = (one for one in sorted(have) if one.startswith("//"))
    yield from (f"{folder} must not use {one}" for one in own if not build_files.may_use(folder, one))


def test_build_files_name_the_imports_of_their_folders():
    files = {folder: [path for path in FILES if home(path) == folder] for folder in FOLDERS}
    found = [
        change
        for folder in FOLDERS
        for change in changes(folder, have=written(folder), want=imported(files[folder], by=folder))
    ]
    assert not found, "\n".join(found)


def test_a_room_has_all_its_folders():
    for name in {room(folder) for folder in FOLDERS if room(folder) != folder}:
        assert {f"//{folder}" for folder in folders_in(name)} <= set(build_files.rule_of(f"//{name}")["deps"])


def test_a_planted_import_is_named():
    have, want = {"//pipeline/base", "//models"}, {"//pipeline/base", "//pipeline/retraining"}
    assert list(changes("pipeline/gate", have=have, want=want)) == [
        "pipeline/gate/BUILD: add //pipeline/retraining, which a file imports",
        "pipeline/gate/BUILD: drop //models, which no file imports",
        "pipeline/gate must not use //models",
    ]
