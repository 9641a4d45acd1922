"""The demo's images hold scikit-learn's digits, value by value."""

import pathlib
import subprocess
import sys

import numpy as np
import PIL.Image
import pytest
from sklearn.datasets import load_digits

ROOT = pathlib.Path(__file__).parents[3]


@pytest.mark.slow
def test_values_can_be_read_back_and_complete_files_are_kept(tmp_path: pathlib.Path):
    command = [sys.executable, str(ROOT / "demo" / "write_digits.py"), f"--output={tmp_path}"]
    subprocess.run(command, check=True)
    digits = load_digits()
    for number in (0, 100, 1796):
        path = tmp_path / str(digits.target[number]) / f"{number:04d}.png"
        values = np.round(np.asarray(PIL.Image.open(path)) / 255 * 16)
        np.testing.assert_array_equal(values, digits.images[number])
    written = path.stat().st_mtime_ns
    subprocess.run(command, check=True)
    assert path.stat().st_mtime_ns == written
    assert len(list(tmp_path.rglob("*.png"))) == 1797
