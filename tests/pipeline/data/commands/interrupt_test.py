"""Ctrl-C reaches its handler wherever the process is."""

import subprocess
import sys

from tests.house.build_file import ROOT

START = """
import os, signal, sys
from pipeline.data.commands import interrupt

def press():
    os.kill(os.getpid(), signal.SIGINT)

handler = interrupt.installed()
"""
LOST = "print('nobody heard it')"


def ended(code: str) -> tuple[int, str, int]:
    """Exit code, stdout, and number of lines on stderr of Python that runs `code`."""
    done = subprocess.run([sys.executable, "-c", START + code], cwd=ROOT, capture_output=True, text=True)
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
from pipeline.data.commands.command import Command
from pipeline.data.commands.run import run_command
from pipeline.data.errors import InputError
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


def test_other_errors_and_exit_codes_pass():
    assert ended("sys.exit(handler.guard(lambda: 3))") == (3, "", 0)
    code, _, lines = ended("handler.guard(lambda: 1 / 0)")
    assert code == 1
    assert lines > 1
