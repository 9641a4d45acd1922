"""What `pip install .` installs: every file of the product, and what it runs on."""

import os
import pathlib
import shutil
import subprocess
import sys
import zipfile
from email import message_from_bytes

import pytest
from packaging.requirements import Requirement

from pipeline.base.errors import EXIT_BAD_INPUT
from tests.house.imports import ROOT

PRODUCT = ("beam_jobs", "models", "penstock", "pipeline")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> zipfile.ZipFile:
    """Built of a copy: the build writes beside what it reads."""
    folder = tmp_path_factory.mktemp("wheel")
    for name in PRODUCT:
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "requirements.in"):
        shutil.copy(ROOT / name, folder)
    options = ("--no-deps", "--no-build-isolation", "--no-index", "--quiet", "--wheel-dir=dist")
    subprocess.run([sys.executable, "-m", "pip", "wheel", *options, "."], cwd=folder, check=True)
    [built] = (folder / "dist").iterdir()
    return zipfile.ZipFile(built)


@pytest.mark.slow
def test_it_brings_what_requirements_in_names(wheel):
    [metadata] = (name for name in wheel.namelist() if name.endswith("/METADATA"))
    brought = message_from_bytes(wheel.read(metadata)).get_all("Requires-Dist")
    lines = (line for line in (ROOT / "requirements.in").read_text().splitlines() if line[:1].isalpha())
    always = {each for each in map(Requirement, brought) if not each.marker}  # others are of extras
    assert always == set(map(Requirement, lines))


@pytest.mark.slow
def test_it_holds_every_file_of_the_product(wheel):
    listed = subprocess.run(
        ["git", "ls-files", *PRODUCT], cwd=ROOT, check=True, capture_output=True, text=True
    )
    found = (path for path in listed.stdout.splitlines() if (ROOT / path).exists())
    files = [path for path in found if pathlib.PurePath(path).name != "BUILD"]
    assert [path for path in files if path not in wheel.namelist()] == []


@pytest.mark.slow
def test_it_brings_a_command_that_runs_anywhere(wheel, tmp_path):
    """Installed beside this environment, started from a folder that is no checkout."""
    installed = tmp_path / "installed"
    options = ("--no-deps", "--no-index", "--quiet", f"--target={installed}")
    subprocess.run([sys.executable, "-m", "pip", "install", *options, wheel.filename], check=True)

    def run(*arguments: str) -> subprocess.CompletedProcess:
        return subprocess.run(
            [installed / "bin" / "penstock", *arguments],
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": str(installed)},
            capture_output=True,
            text=True,
            check=False,
        )

    assert "\n  train " in run("--help").stdout
    assert run("--version").stdout == "penstock 0.1.0\n"
    refused = run("index", "nowhere.tfrecord")
    assert (refused.returncode, refused.stderr.count("\n")) == (EXIT_BAD_INPUT, 1)
    assert "usage: python -m beam_jobs.convert" in run("convert", "--help").stdout
