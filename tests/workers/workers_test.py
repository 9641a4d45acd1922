"""A slice of `make workers-check`: one worker and two, in forks."""

import pathlib
import re
import subprocess

import pytest


@pytest.mark.slow
def test_two_workers_agree_skip_a_step_together_and_end_with_the_weights_of_one(
    tmp_path: pathlib.Path, warm_python: pathlib.Path
):
    flags = ("--only=weights,skip,agree", "--counts=1,2", f"--folder={tmp_path}")
    done = subprocess.run([warm_python, "-m", "tests.workers", *flags], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"^weights: 2 workers, identical; [\d.e-]+ from the first run$", done.stdout, re.M)
