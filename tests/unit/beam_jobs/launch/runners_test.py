"""Whatever ends a run, the user reads one line; and the wheel that workers get."""

import errno
import pathlib
import subprocess
import sys
import tempfile

import pytest

from beam_jobs.launch import runners
from pipeline.base.errors import InputError

FROM_A_WORKER = """Traceback (most recent call last):
  File "worker.py", line 7, in process
    raise KeyError("age")
KeyError: 'age'

During handling of the above exception, another exception occurred:

Traceback (most recent call last):
  File "common.py", line 9, in invoke
KeyError: "'age' [while running 'Prepare']"
"""


def test_bad_input_passes_as_it_is():
    with pytest.raises(InputError, match="the file"), runners.one_line_errors(pathlib.Path("out")):
        raise InputError("the file", received="0 bytes", expected="rows", action="Check it.")


def test_a_name_that_is_too_long_is_told_as_such():
    too_long = pytest.raises(InputError, match="--output=out: received a file name that is too long")
    with too_long, runners.one_line_errors(pathlib.Path("out")):
        raise OSError(errno.ENAMETOOLONG, "File name too long", "out")


@pytest.mark.parametrize(
    "error",
    [
        OSError(28, "No space left on device"),
        OSError(errno.EFBIG, "File too large"),  # of `ulimit -f`
        RuntimeError("OSError: [Errno 28] No space left on device [while…]"),
    ],
)
def test_a_full_disk_is_told_as_such(error: Exception):
    full = pytest.raises(InputError, match="--output=out: received a disk that is full")
    with full as raised, runners.one_line_errors(pathlib.Path("out")):
        raise error
    assert "\n" not in str(raised.value)


def test_a_bug_is_told_by_its_cause_and_the_rest_is_kept_in_a_file():
    with pytest.raises(InputError) as raised, runners.one_line_errors(pathlib.Path("out")):
        raise RuntimeError(FROM_A_WORKER)
    assert "KeyError" in raised.value.received
    assert "\n" not in str(raised.value)
    log = pathlib.Path(raised.value.action.partition("traceback is in ")[2].partition(". ")[0])
    assert FROM_A_WORKER in log.read_text()
    log.unlink()


def test_a_bug_is_told_where_its_traceback_cannot_be_kept(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(tempfile, "tempdir", "/nowhere")
    with (
        pytest.raises(InputError, match=r"KeyError.*could not be kept"),
        runners.one_line_errors(pathlib.Path("out")),
    ):
        raise RuntimeError(FROM_A_WORKER)


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


def test_an_option_of_beam_that_is_given_twice_is_refused():
    given = ["--direct_num_workers=2", "--direct_num_workers=1"]
    with pytest.raises(
        InputError, match="--direct_num_workers: received it twice, as --direct_num_workers=2"
    ):
        runners.unknown_flags(given)
    assert runners.unknown_flags(["--experiments=a", "--experiments=b"]) == []
