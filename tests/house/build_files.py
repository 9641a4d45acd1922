"""What BUILD files say. Starlark is a dialect of Python: they run here with rules that only remember."""

import functools
import pathlib
import re
import sys
from collections.abc import Mapping, Set

from tests.house.imports import ROOT

# Libraries whose import name is not the name they are installed by.
DISTRIBUTIONS = {
    "absl": "absl_py", "google": "protobuf", "grpc": "grpcio", "PIL": "pillow", "yaml": "pyyaml",
    "sklearn": "scikit_learn",
}  # fmt: skip
IGNORED = ("load", "glob", "package", "exports_files", "alias", "test_suite", "py_binary")
READ = ("py_library", "package_group", "folder_tests")


@functools.cache
def rules(folder: str, *, root: pathlib.Path = ROOT) -> Mapping[str, Mapping]:
    """The attributes of each rule of a folder's BUILD file, by the rule's name."""
    found: dict[str, Mapping] = {}

    def remember(*, name: str, **attributes: object) -> None:
        found[name] = attributes

    known = {**dict.fromkeys(IGNORED, lambda *_, **__: []), **dict.fromkeys(READ, remember)}
    path = root / folder / "BUILD"
    exec(path.read_text() if path.exists() else "", known)
    return found


def rule_of(label: str) -> Mapping:
    """The attributes of the rule that a label names."""
    folder, _, name = label.removeprefix("//").partition(":")
    return rules(folder).get(name or pathlib.Path(folder).name, {})


def may_use(folder: str, label: str) -> bool:
    """Whether the rule's visibility, which states the arrows, has the folder in it."""
    default = ["//:development"] if label.startswith("//tests") else []  # tests/defs.bzl
    patterns = [one for group in rule_of(label).get("visibility", default) for one in _packages(group)]
    return any(_fits(folder, pattern) for pattern in patterns)


def _packages(visible: str) -> list[str]:
    """Patterns as those of package_group, of an element of `visibility`."""
    package, _, name = visible.partition(":")
    own = {"__pkg__": [package], "__subpackages__": [f"{package}/..."]}
    return own.get(name) or rule_of(visible)["packages"]


def _fits(folder: str, pattern: str) -> bool:
    whole = pattern.removesuffix("/...")
    return f"//{folder}" == whole or (whole != pattern and f"//{folder}/".startswith(f"{whole}/"))


@functools.cache
def hubs() -> Mapping[str, Set[str]]:
    """The libraries of each hub in MODULE.bazel."""
    found = re.findall(r'"(\w+)": "//:?(\S+)\.txt"', (ROOT / "MODULE.bazel").read_text())
    texts = {hub: (ROOT / f"{name.replace(':', '/')}.in").read_text() for hub, name in found}
    return {hub: set(re.findall(r"^[\w-]+", text, re.MULTILINE)) for hub, text in texts.items()}


def library(module: str) -> str | None:
    top = module.partition(".")[0]
    name = DISTRIBUTIONS.get(top, top)
    found = [hub for hub, names in hubs().items() if name.replace("_", "-") in names]
    assert found or top in sys.stdlib_module_names, f"no requirements file has {module}"
    return f"@{found[0]}//{name}" if found else None
