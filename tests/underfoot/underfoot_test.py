"""A slice of `make underfoot-check`: one change for each way of reading, in a run of its own."""

import pathlib
import subprocess

import pytest


@pytest.mark.slow
@pytest.mark.parametrize(
    ("way", "change"),
    [
        ("single", "shard_overwritten_in_place"),
        ("windows", "directory_swapped"),
        ("mapped", "shard_truncated"),  # SIGBUS
    ],
)
def test_a_dataset_that_changes_ends_a_run_in_one_line_before_a_checkpoint(
    tmp_path: pathlib.Path, warm_python: pathlib.Path, way: str, change: str
):
    flags = (f"--only={way}", f"--changes={change}", "--nogoes_on", f"--folder={tmp_path / 'runs'}")
    done = subprocess.run([warm_python, "-m", "tests.underfoot", *flags], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "1 changes, 0 not as promised" in done.stdout
