"""The binary: verdict, files and exit code."""

import json
import pathlib
import subprocess
import sys

import pytest

from tests.shared.small_run import write_small_dataset

ROOT = pathlib.Path(__file__).parents[2]
CONFIG = "--config=pipeline/configs/tabular.py"


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    return write_small_dataset(tmp_path_factory.mktemp("tiny") / "1.0.0").directory


def feed_rate(*arguments: object, python: str | pathlib.Path = sys.executable) -> subprocess.CompletedProcess:
    command = [python, "-m", "pipeline.feed_rate", CONFIG, *map(str, arguments)]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True)


@pytest.mark.slow
def test_a_step_that_takes_a_minute_is_fed(dataset, tmp_path):
    files = (f"--json={tmp_path / 'feed.json'}", f"--chart={tmp_path / 'feed.html'}")
    done = feed_rate(f"--dataset={dataset}", "--step_ms=60000", "--seconds=0.05", "--slice=v5e-8", *files)
    assert done.returncode == 0
    told = done.stderr.splitlines()  # as no terminal watches
    assert told[0] == "measuring: together" and told[-1] == "measuring: copy"
    assert all(line.startswith("measuring: ") for line in told)
    assert "verdict   FED" in done.stdout
    document = json.loads((tmp_path / "feed.json").read_text())
    assert document["verdict"] == "FED"
    assert document["demand"]["slice"]["replicas"] == 8
    assert "Feed certificate" in (tmp_path / "feed.html").read_text()


@pytest.mark.slow
def test_an_impossible_step_is_starved(dataset, tmp_path, warm_python):
    chart = tmp_path / "feed.svg"
    files = (f"--json={tmp_path / 'feed.json'}", f"--chart={chart}")
    flags = (f"--dataset={dataset}", "--step_ms=0.0001", "--seconds=0.05", "--slice=v5e-8")
    done = feed_rate(*flags, *files, python=warm_python)
    assert done.returncode == 1
    assert "measuring: together" in done.stderr.splitlines()  # as no terminal watches
    document = json.loads((tmp_path / "feed.json").read_text())
    assert (document["verdict"], document["demand"]["slice"]["replicas"]) == ("STARVED", 8)
    assert "verdict   STARVED" in done.stdout
    assert chart.read_text().startswith("<?xml")


@pytest.mark.parametrize(
    ("flag", "named"),
    [
        ("--step_ms=0", "--step_ms"),
        ("--step_ms=-3", "--step_ms"),
        ("--step_ms=nan", "--step_ms"),
        ("--slice=v9-8", "--slice"),
        ("--seconds=0", "--seconds"),
        ("--chart=feed.png", "--chart"),
        ("--dataset=nowhere", "nowhere"),
    ],
)
def test_bad_flags_are_answered_before_anything_is_measured(dataset, flag, named):
    done = feed_rate(f"--dataset={dataset}", flag)
    assert done.returncode == 2
    assert done.stderr.startswith("error: ") and named in done.stderr
    assert "Traceback" not in done.stderr
