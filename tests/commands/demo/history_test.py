"""The last lines of the demo of retraining: what was published and held, and whether that was expected."""

import json
import pathlib
import subprocess
import sys
from collections.abc import Sequence

import pytest

ROOT = pathlib.Path(__file__).parents[3]
ENTRIES = (
    {"act": "started", "stage": "publish"},
    {"act": "published", "version": 1},
    {"act": "decided", "version": 1},
    {"act": "published", "version": 2},
    {"act": "held", "reason": "drift"},
    {"act": "released", "reason": "looked at"},
    {"act": "published", "version": 3},
)


def told(folder: pathlib.Path, entries: Sequence[dict]) -> subprocess.CompletedProcess:
    (folder / "audit.jsonl").write_text("".join(json.dumps(entry) + "\n" for entry in entries))
    command = [sys.executable, "-m", "demo.history", f"--root={folder}", "--seconds=99"]
    return subprocess.run(command, capture_output=True, text=True, cwd=ROOT)


def test_the_expected_history_is_told(tmp_path):
    result = told(tmp_path, ENTRIES)
    assert (result.returncode, result.stderr) == (0, "")
    assert "published 1, published 2, held, released, published 3" in result.stdout


@pytest.mark.parametrize("left_out", [1, 4, 6])  # a version less, or a bad day that was not held
def test_another_history_fails(tmp_path, left_out: int):
    result = told(tmp_path, [entry for number, entry in enumerate(ENTRIES) if number != left_out])
    assert result.returncode == 1
    assert "error: the history is not the one expected" in result.stderr
