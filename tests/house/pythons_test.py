"""pyproject.toml lists the supported Pythons; the locks, MODULE.bazel and the images serve exactly those."""

import re
import sys
import tomllib
import types
from collections.abc import Iterator, Sequence

import pytest
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name

from tests.house.imports import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
PREFIX = "Programming Language :: Python :: "
PYTHONS = [line.removeprefix(PREFIX) for line in PROJECT["classifiers"] if line.startswith(PREFIX)]
LOCKS = [
    "requirements",
    "requirements/dev",
    "requirements/docs",
    "requirements/export",
    "requirements/gcp",
    "requirements/gpu",
    "requirements/models",
    "requirements/notebooks",
    "requirements/observers",
    "requirements/search",
    "requirements/preflight",
    "requirements/tpu",
    "requirements/peers",
]


def test_no_other_python_is_accepted():
    accepted = SpecifierSet(PROJECT["requires-python"])
    minors = [f"3.{minor}" for minor in range(8, 20)]
    assert [version for version in minors if f"{version}.1" in accepted] == PYTHONS


def pins(lock: str) -> list[str]:
    """Each pin of a lock as one line, its hashes included."""
    joined = lock.replace("\\\n", " ")
    return [line for line in joined.splitlines() if line and not line.lstrip().startswith("#")]


def pinned(lock: str, python: str) -> list[str]:
    """Names of what a Linux machine with that Python installs."""
    where = {
        "python_version": python,
        "python_full_version": f"{python}.1",
        "sys_platform": "linux",
        "platform_machine": "x86_64",
        "implementation_name": "cpython",
        "platform_python_implementation": "CPython",
    }
    found = [Requirement(line.partition("--hash")[0]) for line in pins(lock)]
    return [canonicalize_name(pin.name) for pin in found if not pin.marker or pin.marker.evaluate(where)]


def faults(declared: str, lock: str, pythons: Sequence[str]) -> Iterator[str]:
    """What a lock lacks of what its `.in` file declares, a line each."""
    for pin in pins(lock):
        if not re.fullmatch(r"[\w.-]+==\S+ .*--hash=sha256:[0-9a-f]{64}.*", pin):
            yield f"{pin.split()[0]} is not pinned with a hash"
    lines = (line for line in declared.splitlines() if line[:1].isalpha())
    names = {canonicalize_name(Requirement(line).name) for line in lines}
    for python in pythons:
        found = pinned(lock, python)
        yield from (f"{name} is not pinned for Python {python}" for name in sorted(names - set(found)))
        yield from (f"{name} is pinned twice for Python {python}" for name in twice(found))


def twice(names: Sequence[str]) -> list[str]:
    return sorted({name for name in names if names.count(name) > 1})


@pytest.mark.parametrize("name", LOCKS)
def test_a_lock_pins_and_hashes_for_every_python(name):
    declared, lock = ((ROOT / f"{name}{ending}").read_text() for ending in (".in", ".txt"))
    assert list(faults(declared, lock, PYTHONS)) == []


def test_every_lock_is_checked():
    assert sorted(f"{name}.txt" for name in LOCKS) == sorted(
        str(path.relative_to(ROOT))
        for path in (*ROOT.glob("requirements*.txt"), *ROOT.glob("requirements/*.txt"))
    )


def test_what_a_lock_lacks_is_named():
    digest = f"--hash=sha256:{'0' * 64}"
    lock = f"""
one==1.0 ; python_full_version < '3.13' \\
    {digest}
    # via -r requirements.in
two==2.0
three==3.0 {digest}
three==3.1 ; python_version >= '3.13' {digest}
"""
    assert list(faults("one\ntwo==2.0\nthree\n", lock, ["3.12", "3.13"])) == [
        "two==2.0 is not pinned with a hash",
        "one is not pinned for Python 3.13",
        "three is pinned twice for Python 3.13",
    ]


def test_bazel_has_every_python():
    toolchains, hubs = [], []
    python = types.SimpleNamespace(toolchain=lambda **arguments: toolchains.append(arguments))
    pip = types.SimpleNamespace(parse=lambda **arguments: hubs.append(arguments))
    extensions = {"python": python, "pip": pip}
    ignored = dict.fromkeys(("module", "bazel_dep", "use_repo"), lambda *_, **__: None)
    # MODULE.bazel is Starlark, a dialect of Python: what it calls is all that is needed to read it.
    exec((ROOT / "MODULE.bazel").read_text(), {**ignored, "use_extension": lambda _, name: extensions[name]})

    assert [one["python_version"] for one in toolchains] == PYTHONS
    assert [one["python_version"] for one in toolchains if one["is_default"]] == PYTHONS[-1:]
    served = ("requirements", "requirements/dev", "requirements/notebooks")
    assert {(one["requirements_lock"], one["python_version"]) for one in hubs} == {
        (f"//:{name}.txt", version) for name in served for version in PYTHONS
    }


def test_images_have_the_newest_python():
    worker, launcher = (
        (ROOT / "deploy/dataflow" / name).read_text() for name in ("Dockerfile", "Dockerfile.launcher")
    )
    assert f"ARG PYTHON={PYTHONS[-1]}\n" in worker
    assert f"/python{PYTHONS[-1].replace('.', '')}-template-launcher-base" in launcher


def test_this_python_is_supported():
    assert f"{sys.version_info.major}.{sys.version_info.minor}" in PYTHONS
