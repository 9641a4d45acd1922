"""A signal reaches its handler wherever the process is, or waits for what must not be broken off."""

import dataclasses
import os
import pathlib
import subprocess
import sys

import numpy as np
import pytest

from pipeline.base import files
from pipeline.data.dataset import manifest, shards
from pipeline.data.dataset.manifest import Dataset
from tests.house.imports import ROOT
from tests.unit.data.reading.id_stream import write

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


CASES = {
    "what runs is cleaned up": """
def work():
    try:
        press()
    finally:
        press()
        print("cleaned up")
handler.guard(work)
""",
    "an error that a library makes of it is not told": """
def work():
    try:
        press()
    except KeyboardInterrupt as error:
        raise ImportError("half a module") from error
handler.guard(work)
""",
    "an error that a job makes of it is not told as bad input": """
from pipeline.base.cli.command import Command
from pipeline.base.cli.run import run_command
from pipeline.base.errors import InputError
def main(argv):
    try:
        press()
    except KeyboardInterrupt as error:
        raise InputError("the run", received="RuntimeError", expected="none", action="None.") from error
run_command(main, Command(name="job", description="", flags={}))
""",
    "it is not lost where it comes again after the work": """
class Owner:
    def __del__(self):
        press()
def work():
    owner = Owner()
    del owner
    raise ValueError("the worker was interrupted")
handler.guard(work)
""",
    "it comes again where python could not raise it": """
import threading
class Owner:
    def __del__(self):
        press()
def work():
    owner = Owner()
    del owner
    threading.Event().wait()
handler.guard(work)
""",
    "it comes again where a library kept it to itself": """
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
""",
    "threads that miss a worker afterwards are silent": """
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
""",
}


@pytest.mark.parametrize("name", CASES)
def test_it_ends_the_command_in_one_line(name: str):
    told = "cleaned up\n" if "cleaned up" in CASES[name] else ""
    assert ended(CASES[name]) == (130, told, 1)


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


# A signal waits for the end of what must not be broken off; a second one does not.
WORKS = """
import time
from pipeline.base.cli import signals as module
from pipeline.base.cli.signals import Deferred, Interrupted
def work():
    with Deferred() as signals:
        press(signal.SIGTERM)
        {}
    {}
handler.guard(work)
"""
TO_A_STOP = """while not signals.came():
            pass
        print("saved")
        """


def test_it_is_answered_where_the_work_can_stop():
    answers = TO_A_STOP + "raise Interrupted(signals.came(), 'saved at step 7')"
    assert ended(WORKS.format(answers, "print('goes on')")) == (143, "saved\n", 1)


def test_without_an_answer_it_ends_the_command_afterwards():
    assert ended(WORKS.format(TO_A_STOP, "time.sleep(60)")) == (143, "saved\n", 1)


def test_a_peer_that_got_none_ends_alike():
    alone = WORKS.replace("press(signal.SIGTERM)", "pass")
    assert ended(alone.format("raise Interrupted(15, 'saved')", "print('goes on')")) == (143, "", 1)


def test_a_second_one_ends_it_at_once():
    second = """module._SECONDS_OF_ONE_REQUEST = 0.0
        press(signal.SIGTERM)
        while True:
            pass"""
    assert ended(WORKS.format(second, "pass")) == (143, "", 1)


def test_two_of_one_request_are_one():
    both = """press(signal.SIGTERM)
        time.sleep(0.2)
        print("saved")
        raise Interrupted(signals.came(), "saved")"""
    assert ended(WORKS.format(both, "print('goes on')")) == (143, "saved\n", 1)


def test_a_process_without_a_handler_has_none():
    code = """
from pipeline.base.cli.signals import Deferred
signal.signal(signal.SIGINT, signal.default_int_handler)
with Deferred() as signals:
    print(signals.came())
"""
    assert ended(code) == (0, "0\n", 0)


# A mapped shard that shrinks ends a command in one line that names it, and with exit code 2.
# Reads mapped rows for ever, as training does.
READS = """
import faulthandler
import sys
from pipeline.base.cli import signals
signals.handle_signals()
faulthandler.enable()  # as commands do
from pipeline.data.dataset.manifest import open_dataset
from pipeline.data.dataset.selection import select
from pipeline.data.integrity.damage import naming_damage
from pipeline.data.reading import stream
from pipeline.data.reading.sharding import Share
from pipeline.data.reading.plan import plan_reading
selection = select(open_dataset(sys.argv[1]), "train")
plan = plan_reading(selection, share=Share(global_batch=512), seed=1)
with naming_damage(selection):
    for number, _ in enumerate(stream.read(plan)):
        if number == 1:
            print("reads", flush=True)
"""


BLOCKS = 6_000  # 40 MB: TensorFlow copies files of a few


def large_blocks(directory: pathlib.Path) -> Dataset:
    """One shard that holds the same block again and again."""
    dataset = write(directory, range(1024), shards=1, layout="blocks")
    (shard,) = dataset.shards("train")
    name, block = shards.file_name(shard.path), (directory / shard.path).read_bytes()
    (directory / shard.path).write_bytes(block * BLOCKS)
    one = shards.load(directory / name)
    many = shards.Index(
        offsets=np.arange(BLOCKS) * len(block),
        lengths=np.repeat(one.lengths, BLOCKS),
        hashes=np.repeat(one.hashes, BLOCKS),
    )
    (directory / name).write_bytes(shards.dumps(many))
    files = [dataclasses.replace(file, **stored(directory / file.path)) for file in dataset.manifest.files]
    larger = dataclasses.replace(shard, records=BLOCKS, rows=BLOCKS * 1024, **stored(directory / shard.path))
    changed = dataclasses.replace(dataset.manifest, files=tuple(files), splits={"train": (larger,)})
    (directory / manifest.FILE_NAME).write_text(manifest.dumps(changed))
    return manifest.open_dataset(directory)


def stored(path: pathlib.Path) -> dict:
    return {"bytes": path.stat().st_size, "sha256": files.sha256(path)}


def test_a_shard_that_is_truncated_while_it_is_mapped_is_named(tmp_path):
    dataset = large_blocks(tmp_path / "ids")
    (path,) = dataset.shard_paths("train")
    command = [sys.executable, "-c", READS, str(dataset.directory)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "reads\n"
        os.truncate(path, 100)
        _, stderr = process.communicate()
    assert process.returncode == 2
    lines = [line for line in stderr.splitlines() if line.startswith(("error", "Fatal"))]
    assert len(lines) == 1
    assert lines[0].startswith(f"error: dataset file {path}: received 100 bytes; expected ")
