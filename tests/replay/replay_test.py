"""A slice of `make replay-check`: a run that kill -9 ends, and four poisoned rows, in forks."""

import pathlib
import subprocess

import pytest


@pytest.mark.slow
def test_a_killed_run_is_replayed_and_poisoned_rows_are_found(tmp_path: pathlib.Path, warm_python):
    flags = ("--short", "--pairs=30", f"--folder={tmp_path}")
    done = subprocess.run([warm_python, "-m", "tests.replay", *flags], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    *_, total = [line.split() for line in done.stdout.splitlines() if line.startswith("all ")]
    trained_twice, replayed, equal = map(int, total[1:4])
    assert trained_twice > 0
    assert (replayed, equal) == (30, 30)
    assert "4 of 4 poisoned rows are the first of their step, with file and line" in done.stdout
