"""The demo's last lines, and that it fails where the model is worse than it should be."""

import json
import subprocess
import sys

import pytest


@pytest.mark.parametrize(("accuracy", "exit_code"), [(0.99, 0), (0.97, 0), (0.9699, 1)])
def test_fails_below_the_required_accuracy(tmp_path, accuracy, exit_code):
    metrics = tmp_path / "test.json"
    metrics.write_text(json.dumps({"accuracy": accuracy, "examples": 385}))
    paths = (f"--metrics={metrics}", "--model=build/demo/model", "--report=report.html", "--seconds=79")
    result = subprocess.run([sys.executable, "-m", "demo.verdict", *paths], capture_output=True, text=True)
    assert result.returncode == exit_code
    assert f"test accuracy  {accuracy:.4f} of 385 digits" in result.stdout
    assert "SavedModel     build/demo/model" in result.stdout
    assert ("error: the accuracy is below 0.97" in result.stderr) == bool(exit_code)
