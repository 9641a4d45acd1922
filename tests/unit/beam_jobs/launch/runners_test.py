"""Whatever ends a run, the user reads one line; and the wheel that workers get."""

import errno
import os
import pathlib
import signal
import subprocess
import sys
import tempfile

import apache_beam as beam
import grpc
import pytest

from beam_jobs.launch import runners
from pipeline.base.errors import FailedError, InputError, TryAgainError
from pipeline.data.schema import schema as schema_lib
from pipeline.data.schema.feature_types import Label, Numeric
from pipeline.data.schema.schema import Schema

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
    log = pathlib.Path(raised.value.action.partition("traceback: ")[2].removesuffix("."))
    assert FROM_A_WORKER in log.read_text()
    log.unlink()


def test_a_bug_is_told_where_its_traceback_cannot_be_kept(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(tempfile, "tempdir", "/nowhere")
    with (
        pytest.raises(InputError, match=r"KeyError.*could not be kept"),
        runners.one_line_errors(pathlib.Path("out")),
    ):
        raise RuntimeError(FROM_A_WORKER)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (f"{runners.WORKER_DIED} (Worker subprocess exited with return code -9)", "return code -9"),
        ("line 7\nMemoryError [while running 'Prepare']", "too little memory"),
        ("PermissionError: [Errno 13] Permission denied: 'a.png' [while…]", "(Permission denied: 'a.png')"),
    ],
)
def test_a_killed_worker_and_a_lack_of_memory_may_be_gone_later(text: str, said: str):
    with pytest.raises(TryAgainError) as raised, runners.one_line_errors("out"):
        raise RuntimeError(text)
    assert said in str(raised.value)
    assert "\n" not in str(raised.value)


def test_an_error_that_asks_to_try_again_comes_from_a_worker_as_itself():
    lacking = TryAgainError("input a.csv", received="too little memory", expected="more", action="Give it.")
    with pytest.raises(TryAgainError) as raised, runners.bad_input_from_workers():
        raise RuntimeError(f"pipeline.base.errors.TryAgainError: {lacking} [while running 'Prepare']")
    assert str(raised.value) == str(lacking)


def test_a_connection_that_breaks_first_is_a_worker_that_died(tmp_path: pathlib.Path):
    runner = runners.make_runner(
        "FnApiRunner", runners.pipeline_options("FnApiRunner", ()), directory=tmp_path
    )
    told = pytest.raises(TryAgainError, match=r"a worker process died \(its connection broke\)")
    for error in (grpc.RpcError(), RuntimeError("Channel closed prematurely.")):
        with told, runners.one_line_errors("out"), runners._lost_connections_named(beam.Pipeline(runner)):
            raise error


def die(number: int, code: int) -> int:
    if number == 7:
        if not code:
            os.kill(os.getpid(), signal.SIGKILL)
        os._exit(code)
    return number


@pytest.mark.slow
@pytest.mark.parametrize(
    ("code", "kind", "said"),
    [(0, TryAgainError, r"a worker process died \(Worker .* return code -9\)"), (3, FailedError, "code 3")],
)
def test_a_worker_that_dies_ends_the_run(tmp_path: pathlib.Path, code: int, kind: type, said: str):
    options = runners.pipeline_options(
        "FnApiRunner", ("--direct_running_mode=multi_processing", "--direct_num_workers=2")
    )
    runner = runners.make_runner("FnApiRunner", options, directory=tmp_path)
    pipeline = beam.Pipeline(runner=runner, options=options)
    _ = pipeline | beam.Create(range(100)) | beam.Reshuffle() | beam.Map(die, code)
    with pytest.raises(kind, match=said), runners.one_line_errors(tmp_path):
        runners.run_to_end(pipeline)


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


WITHOUT_THREADS = """
import runpy, threading
from apache_beam.runners.portability.local_job_service import SubprocessSdkWorker
worker, run, start = threading.local(), SubprocessSdkWorker.run, threading.Thread.start
def run_without_threads(self):
    worker.starts = True
    run(self)
def start_or_not(self):
    if getattr(worker, "starts", False):
        raise RuntimeError("can't start new thread")
    start(self)
SubprocessSdkWorker.run, threading.Thread.start = run_without_threads, start_or_not
runpy.run_module("beam_jobs.convert", run_name="__main__", alter_sys=True)
"""


@pytest.mark.slow
def test_a_worker_for_which_there_is_no_thread_ends_the_command(tmp_path: pathlib.Path):
    """The server of gRPC that could not start would wait for ever where it is freed."""
    (tmp_path / "a.csv").write_text("a,b\n" + "0.5,no\n1.5,yes\n" * 20)
    features = (Numeric(name="a"), Label(name="b", classes=("no", "yes")))
    schema_lib.save(Schema(name="few", features=features), tmp_path / "schema.json")
    command = [
        *(sys.executable, "-c", WITHOUT_THREADS, f"--input={tmp_path / 'a.csv'}"),
        *(f"--schema={tmp_path / 'schema.json'}", f"--output={tmp_path / 'few'}"),
        *("--direct_running_mode=multi_processing", "--direct_num_workers=2"),
    ]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert (ended.returncode, "can't start new thread" in ended.stderr) == (75, True)
