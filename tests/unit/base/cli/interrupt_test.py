"""A signal reaches its handler wherever the process is."""

import subprocess
import sys

import pytest

from tests.house.imports import ROOT

START = """
import os, signal, sys
from pipeline.base.cli import signals

def press(number=signal.SIGINT):
    os.kill(os.getpid(), number)

handler = signals.handle_signals()
"""
HEARD = "import signal; signal.signal(signal.SIGHUP, signal.SIG_DFL)\n"  # nohup ignores it
LOST = "print('nobody heard it')"
# Ends at no signal, as a long step of TensorFlow: waits for ever for a mutex that this thread holds itself.
COMPUTES = """
import ctypes
def compute():
    mutex = ctypes.create_string_buffer(64)
    for _ in range(2):
        ctypes.CDLL(None).pthread_mutex_lock(mutex)
"""


def ended(code: str, *, first: str = HEARD) -> tuple[int, str, int]:
    """Exit code, stdout, and number of lines on stderr of Python that runs `code`."""
    done = subprocess.run(
        [sys.executable, "-c", first + START + code], cwd=ROOT, capture_output=True, text=True, timeout=60
    )
    return done.returncode, done.stdout, len(done.stderr.splitlines())


def test_it_ends_the_imports():
    assert ended(f"press()\n{LOST}") == (130, "", 1)


def test_what_runs_is_cleaned_up():
    code = """
def work():
    try:
        press()
    finally:
        press()
        print("cleaned up")
handler.guard(work)
"""
    assert ended(code) == (130, "cleaned up\n", 1)


def test_an_error_that_a_library_makes_of_it_is_not_told():
    code = """
def work():
    try:
        press()
    except KeyboardInterrupt as error:
        raise ImportError("half a module") from error
handler.guard(work)
"""
    assert ended(code) == (130, "", 1)


def test_an_error_that_a_job_makes_of_it_is_not_told_as_bad_input():
    code = """
from pipeline.base.cli.command import Command
from pipeline.base.cli.run import run_command
from pipeline.base.errors import InputError
def main(argv):
    try:
        press()
    except KeyboardInterrupt as error:
        raise InputError("the run", received="RuntimeError", expected="none", action="None.") from error
run_command(main, Command(name="job", description="", flags={}))
"""
    assert ended(code) == (130, "", 1)


def test_it_is_not_lost_where_it_comes_again_after_the_work():
    code = """
class Owner:
    def __del__(self):
        press()
def work():
    owner = Owner()
    del owner
    raise ValueError("the worker was interrupted")
handler.guard(work)
"""
    assert ended(code) == (130, "", 1)


def test_it_comes_again_where_python_could_not_raise_it():
    code = """
import threading
class Owner:
    def __del__(self):
        press()
def work():
    owner = Owner()
    del owner
    threading.Event().wait()
handler.guard(work)
"""
    assert ended(code) == (130, "", 1)


def test_it_comes_again_where_a_library_kept_it_to_itself():
    code = """
import threading
def work():
    try:
        press()
    except BaseException:
        pass
    try:
        threading.Event().wait()
    finally:
        print("cleaned up")
handler.guard(work)
"""
    assert ended(code) == (130, "cleaned up\n", 1)


def test_threads_that_miss_a_worker_afterwards_are_silent():
    code = """
import threading
def fail():
    raise RuntimeError("the worker is gone")
def work():
    try:
        press()
    finally:
        thread = threading.Thread(target=fail)
        thread.start()
        thread.join()
handler.guard(work)
"""
    assert ended(code) == (130, "", 1)


@pytest.mark.parametrize(("name", "code"), [("SIGINT", 130), ("SIGTERM", 143), ("SIGHUP", 129)])
def test_the_exit_code_names_the_signal(name: str, code: int):
    assert ended(f"handler.guard(lambda: press(signal.{name}))") == (code, "", 1)


def test_what_nohup_ignores_stays_ignored():
    ignoring = "import signal; signal.signal(signal.SIGHUP, signal.SIG_IGN)\n"
    assert ended("press(signal.SIGHUP); print('goes on')", first=ignoring) == (0, "goes on\n", 0)


def test_a_command_that_has_done_its_work_ends_as_such():
    # A global's finalizer runs after Python has given the signals back their defaults.
    code = """
class Last:
    def __del__(self, kill=os.kill, pid=os.getpid(), number=signal.SIGTERM):
        kill(pid, number)
last = Last()
sys.exit(handler.guard(lambda: 3))
"""
    assert ended(code) == (3, "", 0)


def test_a_read_that_blocks_ends():
    # The signal goes to the other thread, so that this one's read is not cut short.
    code = """
import threading
reads, _ = os.pipe()
threading.Thread(target=signal.raise_signal, args=[signal.SIGTERM]).start()
handler.guard(lambda: os.read(reads, 1))
"""
    assert ended(code) == (143, "", 1)


def test_a_computation_ends_before_there_is_anything_to_clean_up():
    code = (
        COMPUTES
        + """
import threading
threading.Thread(target=press).start()
compute()
"""
    )
    assert ended(code) == (130, "", 1)


def test_a_computation_ends_after_the_time_to_unwind():
    code = (
        COMPUTES
        + """
import threading
signals._SECONDS_TO_UNWIND = 0.1
threading.Thread(target=press).start()
handler.guard(compute)
"""
    )
    assert ended(code) == (130, "", 1)


@pytest.mark.parametrize(
    "shell",
    [
        "trap '' INT TERM HUP; echo started; sleep 1000; :",  # deaf
        "echo started; for _ in $(seq 500); do sleep 100 & done; wait",  # at any moment it starts another one
    ],
)
def test_what_it_started_ends_too(shell: str):
    # The grandchild holds the pipe open on which the test waits for the end of its output.
    code = f"""
import subprocess
def work():
    child = subprocess.Popen(["sh", "-c", {shell!r}], stdout=subprocess.PIPE)
    child.stdout.readline()
    press(signal.SIGTERM)
handler.guard(work)
"""
    assert ended(code) == (143, "", 1)


def test_other_errors_and_exit_codes_pass():
    assert ended("sys.exit(handler.guard(lambda: 3))") == (3, "", 0)
    code, _, lines = ended("handler.guard(lambda: 1 / 0)")
    assert code == 1
    assert lines > 1
