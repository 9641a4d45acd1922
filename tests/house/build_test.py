"""BUILD says what the files import."""

import ast
from collections.abc import Iterator, Mapping

import pytest

from tests.house import build_file
from tests.house.build_file import Target


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
