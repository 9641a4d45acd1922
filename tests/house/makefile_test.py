"""The Python that `make install` takes, and when it makes .venv anew."""

import pathlib
import re
import shutil
import subprocess

import pytest

from tests.house.imports import ROOT


@pytest.fixture
def checkout(tmp_path) -> pathlib.Path:
    """A folder with the Makefile, and an empty `bin` for Pythons."""
    for name in ("Makefile", "pyproject.toml", "requirements.txt", "requirements/dev.txt"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    (tmp_path / "bin").mkdir()
    return tmp_path


def put_python(path: pathlib.Path, answer: str) -> None:
    """A Python that says it is of the version `answer`, or fails where that is no version."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\necho {answer}\n" if answer[0].isdigit() else f"#!/bin/sh\n{answer}\n")
    path.chmod(0o755)


def make(checkout: pathlib.Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """`make ARGUMENTS` with the Pythons in `bin` and no other on PATH."""
    tools = checkout / "tools"
    tools.mkdir(exist_ok=True)
    for tool in ("bash", "sed", "sort", "make"):
        if not (tools / tool).exists():
            (tools / tool).symlink_to(shutil.which(tool))
    path = f"{checkout / 'bin'}:{tools}"
    return subprocess.run(
        ["make", *arguments], cwd=checkout, env={"PATH": path}, capture_output=True, text=True, check=False
    )


def taken(checkout: pathlib.Path, *arguments: str) -> str | None:
    """The Python that `make install` makes .venv of; none if .venv is kept."""
    done = make(checkout, "--dry-run", "install", *arguments)
    assert done.returncode == 0, done.stderr
    found = re.search(r"(\S+) -m venv \.venv", done.stdout)
    return found[1] if found else None


def test_the_newest_python_that_runs_is_taken(checkout):
    put_python(checkout / "bin/python3.13", "exit 127")  # as pyenv's shim of a version that is not active
    put_python(checkout / "bin/python3.11", "3.11")
    assert taken(checkout) == "python3.11"
    put_python(checkout / "bin/python3", "3.12")
    assert taken(checkout) == "python3"
    put_python(checkout / "bin/python3.13", "3.13")
    assert taken(checkout) == "python3.13"
    assert taken(checkout, "PYTHON=python3.11") == "python3.11"


def test_a_venv_that_fits_is_kept(checkout):
    put_python(checkout / "bin/python3.13", "3.13")
    put_python(checkout / "bin/python3.12", "3.12")
    put_python(checkout / ".venv/bin/python", "3.12")
    (checkout / ".venv/.installed").touch()
    assert taken(checkout) is None
    assert taken(checkout, "PYTHON=python3.12") is None
    assert taken(checkout, "PYTHON=python3.13") == "python3.13"
    (checkout / ".venv/bin/python").unlink()  # as after an upgrade of the system
    assert taken(checkout) == "python3.13"


@pytest.mark.parametrize(
    ("pythons", "arguments", "received"),
    [
        ({}, (), "Those that run: none."),
        ({"python3": "3.9", "python3.12": "exit 127"}, (), "Those that run: python3=3.9."),
        ({"python3.12": "3.12", "old": "3.9"}, ("PYTHON=old",), "among old. Those that run: old=3.9."),
    ],
)
def test_no_python_that_fits(checkout, pythons, arguments, received):
    for name, answer in pythons.items():
        put_python(checkout / "bin" / name, answer)
    done = make(checkout, "install", *arguments)
    assert done.returncode == 2
    assert "error: found no Python 3.13 3.12 3.11 among" in done.stderr
    assert received in done.stderr
    assert "make PYTHON=/path/to/python3.13" in done.stderr
    assert not (checkout / ".venv").exists()


def test_an_environment_gets_a_pip_that_reads_our_locks_first(checkout):
    put_python(checkout / "bin/python3.11", "3.11")
    planned = make(checkout, "--dry-run", "install").stdout
    assert re.search(r"bin/pip install .*\bpip==\d.*\n(.*\n)*.*bin/pip install .*--require-hashes", planned)
    assert (ROOT / "Makefile").read_text().count("-m venv") == 1  # every environment is made by one rule
