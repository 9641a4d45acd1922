"""The wheel that workers get: the same for the same code, and complete."""

import pathlib
import subprocess
import sys

import pytest

from beam_jobs.launch import runners


def test_the_same_code_gives_the_same_wheel(tmp_path: pathlib.Path):
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
    one, two = (runners.build_wheel(tmp_path / name) for name in ("one", "two"))
    assert one.name == two.name
    assert one.read_bytes() == two.read_bytes()


@pytest.mark.slow
def test_pip_installs_it_and_workers_find_all_that_they_run(tmp_path: pathlib.Path):
    wheel = runners.build_wheel(tmp_path)
    pip = (sys.executable, "-m", "pip", "install", "--quiet", "--no-index", "--no-deps", "--target", "code")
    subprocess.run([*pip, str(wheel)], cwd=tmp_path, check=True)
    script = "from beam_jobs.conversion import dataset, preparation, writer; print(writer.__file__)"
    done = subprocess.run(
        [sys.executable, "-c", script],
        cwd=tmp_path,
        env={"PYTHONPATH": str(tmp_path / "code")},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == str(tmp_path / "code" / "beam_jobs" / "conversion" / "writer.py")
