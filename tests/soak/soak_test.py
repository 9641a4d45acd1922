"""A slice of `make soak-training`: a small run, killed six times, in forks."""

import pathlib
import re
import subprocess

import pytest


@pytest.mark.slow
def test_a_run_that_is_killed_again_and_again_ends_like_the_undisturbed_one(
    tmp_path: pathlib.Path, warm_python: pathlib.Path
):
    flags = ("--kills=6", "--terms=0", "--each=6", "--only=table_one_device", f"--folder={tmp_path}")
    done = subprocess.run([warm_python, "-m", "tests.soak", *flags], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert len(re.findall(r"exit code -9", done.stdout)) == 6
    assert "table_one_device: 0 lost, 0 repeated" in done.stdout
