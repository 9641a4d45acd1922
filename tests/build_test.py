"""BUILD says what the files import, and the imports follow the arrows of the house."""

import ast
import graphlib
import re
from collections.abc import Iterator, Mapping

import pytest

from tests import build_file
from tests.build_file import Target

# What the files of a room may import of ours. The longest path that fits is a file's room.
QUIET = "pipeline/quiet.py"  # how a process starts TensorFlow; stands beside the binaries that need it
ARROWS: Mapping[str, set[str]] = {
    "models": set(),
    QUIET: set(),
    "pipeline/data": set(),
    "pipeline/configs": set(),
    "pipeline/training": {"pipeline/data", "pipeline/configs", "models", QUIET},
    "pipeline/release": {"pipeline/data", "pipeline/training", "models", QUIET},
    "pipeline": {
        "pipeline/data",
        "pipeline/configs",
        "pipeline/training",
        "pipeline/release",
        "models",
        QUIET,
    },
    "beam_jobs": {"pipeline/data", QUIET},
    "demo": set(),
}
FREE = ("tests", "benchmarks")  # may import anything; nothing else may import them

# Seconds and gigabytes that a Beam worker has no use for.
NOT_ON_A_WORKER = ("tensorflow", "keras", "tensorflow_datasets")

# Files of flags that several binaries have, each declared once.
SHARED_FLAGS = ("beam_jobs/source_flags.py",)


def paths() -> list[str]:
    return sorted(build_file.sources().values())


def room(path: str) -> str:
    fitting = [name for name in (*ARROWS, *FREE) if path == name or path.startswith(f"{name}/")]
    assert fitting, f"{path} stands in no room: add its folder to ARROWS"
    return max(fitting, key=len)


def ours(path: str, *, eager_only: bool = False) -> set[str]:
    """The files of ours that `path` imports."""
    chosen = (one for one in build_file.imports(path) if one.eager or not eager_only)
    return {build_file.own(one.module) for one in chosen} - {None, path}


def differences(derived: Mapping[str, Target], written: Mapping[str, Target]) -> Iterator[str]:
    """What to change in BUILD, a line a target."""
    for name in sorted(derived.keys() - written.keys()):
        yield f"add a {derived[name].rule} '{name}' for {derived[name].src}"
    for name in sorted(written.keys() - derived.keys()):
        yield f"drop target '{name}': there is no such file"
    for name in sorted(derived.keys() & written.keys()):
        want, have = derived[name], written[name]
        if (want.rule, want.src) != (have.rule, have.src):
            yield f"'{name}': make it a {want.rule} of {want.src}"
        if missing := sorted(set(want.deps) - set(have.deps)):
            yield f"'{name}': add {', '.join(missing)}, which {want.src} imports"
        if unused := sorted(set(have.deps) - set(want.deps)):
            yield f"'{name}': drop {', '.join(unused)}, which {want.src} does not import"


def test_build_names_every_file_once_and_its_imports_as_deps():
    changes = list(differences(build_file.derived(), build_file.written()))
    assert not changes, "BUILD differs from the imports; `make format` writes:\n  " + "\n  ".join(changes)


def test_data_that_build_names_exists():
    for target in build_file.written().values():
        for file in target.kept.get("data", ()):
            assert (build_file.ROOT / file).is_file(), f"BUILD, '{target.name}': data {file} is no file"


@pytest.mark.parametrize("path", paths())
def test_imports_follow_the_arrows(path):
    if room(path) in FREE:
        return
    for imported in ours(path):
        allowed = {room(path), *ARROWS[room(path)]}
        assert room(imported) in allowed, (
            f"{path} imports {imported}, but {room(path)} may import only {', '.join(sorted(allowed))}"
        )


def test_nobody_imports_in_a_circle():
    try:
        graphlib.TopologicalSorter({path: ours(path) for path in paths()}).prepare()
    except graphlib.CycleError as error:
        pytest.fail("imports in a circle: " + " <- ".join(error.args[1]))


@pytest.mark.parametrize("path", [path for path in paths() if path.startswith("beam_jobs/")])
def test_no_beam_worker_imports_tensorflow(path):
    reached, ahead = {path: path}, [path]
    while ahead:
        here = ahead.pop()
        for one in build_file.imports(here):
            heavy = one.eager and one.module.partition(".")[0] in NOT_ON_A_WORKER
            assert not heavy, (
                f"{reached[here]} imports {one.module}: import it inside the function that needs it"
            )
        for following in ours(here, eager_only=True) - reached.keys():
            reached[following] = f"{reached[here]} -> {following}"
            ahead.append(following)


@pytest.mark.parametrize("path", [path for path in paths() if not path.startswith(FREE)])
def test_flags_are_defined_in_binaries_only(path):
    defined = re.findall(r"\bDEFINE_\w+\(.*", (build_file.ROOT / path).read_text())
    may = build_file.rule_of(path) == "py_binary" or path in SHARED_FLAGS
    assert not defined or may, f"{path} is no binary but has {defined[0]}"


def target(name: str, *deps: str) -> Target:
    return Target(rule="py_library", name=name, src=f"{name}.py", deps=deps)


@pytest.mark.parametrize(
    ("derived", "written", "change"),
    [
        ([target("a")], [], "add a py_library 'a' for a.py"),
        ([], [target("a")], "drop target 'a': there is no such file"),
        ([target("a", ":b")], [target("a")], "'a': add :b, which a.py imports"),
        ([target("a")], [target("a", ":b")], "'a': drop :b, which a.py does not import"),
    ],
)
def test_a_difference_says_what_to_change(derived, written, change):
    by_name = [{one.name: one for one in targets} for targets in (derived, written)]
    assert list(differences(*by_name)) == [change]


def test_an_import_inside_a_function_is_not_eager():
    code = ast.parse("import json\ndef f():\n  from pipeline import data")
    found = [(one.module, one.eager) for one in build_file._walk(code, eager=True)]
    assert found == [("json", True), ("pipeline.data", False)]


def test_a_rewritten_build_reads_back_as_the_same(tmp_path, monkeypatch):
    copy = tmp_path / "BUILD"
    copy.write_text(build_file.BUILD.read_text())
    monkeypatch.setattr(build_file, "BUILD", copy)
    build_file.rewrite()
    assert copy.read_text() == (build_file.ROOT / "BUILD").read_text()
