"""All fourteen commands answer a wrong command line and Ctrl-C alike: one line, an exit code, no traceback.

Those that need no TensorFlow to answer must not import it: here its import fails.
"""

import contextlib
import dataclasses
import functools
import os
import pathlib
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence

import pytest

from pipeline.base.errors import EXIT_BAD_INPUT
from tests.house.imports import HOUSE, ROOT
from tests.shared.matrix import quick_cases

CONFIG = "--config=pipeline/configs/tabular.py"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Commanded:
    """What to give a command; `{}` stands for a folder in which every file is a pipe that nobody fills.

    Attributes:
      wrong_type: a flag with a value of the wrong type.
      lacking: too few flags, and the name of the first that is missing.
      unreadable: a path that is not there.
      reading: what makes it read from a pipe, and so wait. As data and documents pipes are refused.
    """

    wrong_type: str
    lacking: tuple[Sequence[str], str]
    unreadable: Sequence[str]
    reading: Sequence[str] = ("--flagfile={}/flags",)


COMMANDS = {
    "beam_jobs.convert": Commanded(
        wrong_type="--shard_mib=many",
        lacking=(["--input=rows.csv", "--output=new"], "--schema"),
        unreadable=["--input=rows.csv", "--output=new", "--schema=nowhere.json"],
    ),
    "beam_jobs.infer_schema": Commanded(
        wrong_type="--max_rows=many",
        lacking=(["--output=new.json"], "--input"),
        unreadable=["--input=nowhere.csv", "--output=new.json"],
    ),
    "beam_jobs.verify": Commanded(
        wrong_type="--limit=drift",
        lacking=([], "command line"),
        unreadable=["nowhere"],
    ),
    "beam_jobs.predict": Commanded(
        wrong_type="--batch=many",
        lacking=(["--input=rows.csv", "--output=new"], "--model"),
        unreadable=["--input=README.md", "--format=csv", "--output=new", "--model=nowhere"],
    ),
    "pipeline.train": Commanded(
        wrong_type="--logical_devices=two",
        lacking=([CONFIG, "--dataset=nowhere"], "--workdir"),
        unreadable=[CONFIG, "--dataset=nowhere", "--workdir=new"],
    ),
    "pipeline.evaluate": Commanded(
        wrong_type="--batch=many",
        lacking=(["--dataset=nowhere"], "--model"),
        unreadable=["--model=nowhere", "--dataset=nowhere"],
    ),
    "pipeline.export": Commanded(
        wrong_type="--output",
        lacking=(["--output=new"], "--workdir"),
        unreadable=["--workdir=nowhere", "--output=new"],
    ),
    "pipeline.generate": Commanded(
        wrong_type="--top_k=many",
        lacking=(["--prompt=The"], "--model"),
        unreadable=["--model=new", "--prompts=nowhere"],
    ),
    "pipeline.compare": Commanded(
        wrong_type="--html",
        lacking=([], "--runs"),
        unreadable=["--runs=nowhere"],
    ),
    "pipeline.replay": Commanded(
        wrong_type="--step=first",
        lacking=(["--step=1"], "--workdir"),
        unreadable=["--workdir=nowhere", "--step=1"],
    ),
    "pipeline.parity": Commanded(
        wrong_type="--config.train.steps=many",
        lacking=([CONFIG], "--dataset"),
        unreadable=["--workdir=nowhere"],
    ),
    "pipeline.preflight": Commanded(
        wrong_type="--config.train.steps=many",
        lacking=([CONFIG, "--dataset=nowhere"], "--target"),
        unreadable=[CONFIG, "--dataset=nowhere", "--target=v5e:2x4"],
    ),
    "pipeline.conform": Commanded(
        wrong_type="--config.train.steps=many",
        lacking=([CONFIG], "--dataset"),
        unreadable=[CONFIG, "--dataset=nowhere"],
    ),
    "pipeline.retrain": Commanded(
        wrong_type="--config.keep.versions=many",
        lacking=(["--config=pipeline/configs/retraining/base.py"], "--root"),
        unreadable=["reconcile", "--config=pipeline/configs/retraining/base.py", "--root=nowhere"],
    ),
    "pipeline.feed_rate": Commanded(
        wrong_type="--seconds=two",
        lacking=([CONFIG], "--dataset"),
        unreadable=[CONFIG, "--dataset=nowhere"],
    ),
    "pipeline.index": Commanded(
        wrong_type="--check=perhaps",
        lacking=([], "command line"),
        unreadable=["nowhere.tfrecord"],
        reading=["{}/part.tfrecord"],
    ),
    "pipeline.data_service": Commanded(
        wrong_type="--port=five",
        lacking=(["--port"], "--port"),
        unreadable=["--flagfile=nowhere"],  # it reads no other file
    ),
}
Answer = Callable[..., subprocess.CompletedProcess]
PIPES = ("part.tfrecord", "flags")
# One of Beam, one that trains and one that waits for data.
QUICK = ("beam_jobs.convert", "pipeline.train", "pipeline.index")
every_command = pytest.mark.parametrize("module", quick_cases(COMMANDS, QUICK))


def answer(
    program: pathlib.Path, module: str, *arguments: str, env: dict[str, str]
) -> subprocess.CompletedProcess:
    command = [program, "-m", module, *arguments]
    return subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, check=False)


@pytest.fixture
def warm(python_without_tensorflow: pathlib.Path, without_tensorflow: dict[str, str]) -> Answer:
    """Answers of commands, forks of a process that has imported Beam."""
    return functools.partial(answer, python_without_tensorflow, env=without_tensorflow)


@pytest.fixture
def pipes(tmp_path: pathlib.Path) -> pathlib.Path:
    for name in PIPES:
        os.mkfifo(tmp_path / name)
    return tmp_path


def assert_one_line(ended: subprocess.CompletedProcess, *, named: str) -> None:
    assert (ended.returncode, ended.stdout) == (EXIT_BAD_INPUT, ""), ended.stderr
    (line,) = ended.stderr.splitlines()
    assert line.startswith("error: ")
    assert named in line


def test_the_table_has_every_command():
    folders = ("beam_jobs", "pipeline")
    found = {
        f"{folder}.{path.stem}"
        for folder in folders
        for path in (ROOT / folder).glob("*.py")
        if HOUSE.is_command(f"{folder}/{path.name}")
    }
    assert set(COMMANDS) == found


@every_command
def test_an_unknown_flag(module: str, warm: Answer):
    assert_one_line(warm(module, "--jsn=x"), named="--jsn")


@every_command
def test_a_value_of_the_wrong_type(module: str, warm: Answer):
    wrong = COMMANDS[module].wrong_type
    unread = ["nowhere"] if module == "beam_jobs.verify" else []
    ended = warm(module, wrong, *unread)
    assert_one_line(ended, named=wrong.partition("=")[0])


@every_command
def test_a_missing_flag(module: str, warm: Answer):
    given, missing = COMMANDS[module].lacking
    assert_one_line(warm(module, *given), named=f"error: {missing}: received no")


@every_command
def test_a_path_that_is_not_there(module: str, warm: Answer):
    assert_one_line(warm(module, *COMMANDS[module].unreadable), named="nowhere")


@pytest.mark.parametrize("module", ["pipeline.train", "pipeline.index"])  # with --config, and without
def test_a_file_of_flags_that_is_not_there(module: str, warm: Answer):
    assert_one_line(warm(module, "--flagfile=nowhere"), named="'nowhere'")


@every_command
def test_ctrl_c(module: str, pipes: pathlib.Path, without_tensorflow: dict[str, str]):
    arguments = [argument.format(pipes) for argument in COMMANDS[module].reading]
    process = subprocess.Popen(
        [sys.executable, "-m", module, *arguments],
        cwd=ROOT,
        env=without_tensorflow,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    with reading(process, pipes):
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (130, ""), err
    assert re.fullmatch(r"interrupted: .*\n", err)
    assert not (ROOT / "new").exists()


@contextlib.contextmanager
def reading(process: subprocess.Popen, pipes: pathlib.Path) -> Iterator[None]:
    """Waits until the process reads from one of the pipes; while the block runs it waits for content."""
    opened = threading.Event()
    descriptors = []

    def wait_for_reader(path: pathlib.Path) -> None:
        descriptors.append(os.open(path, os.O_WRONLY))  # returns when somebody opens it for reading
        opened.set()

    writers = [threading.Thread(target=wait_for_reader, args=[path], daemon=True) for path in pipes.iterdir()]
    ended = threading.Thread(target=lambda: (process.wait(), opened.set()), daemon=True)
    for thread in (*writers, ended):
        thread.start()
    opened.wait()
    yield
    for path in pipes.iterdir():  # lets the others go
        descriptors.append(os.open(path, os.O_RDONLY | os.O_NONBLOCK))
    for writer in writers:
        writer.join()
    for descriptor in descriptors:
        os.close(descriptor)


@pytest.mark.parametrize("name", ["models/__init__.py", "models.py", "models/mine.txt"])
def test_a_folder_or_file_of_the_users_beside_their_work_hides_none_of_ours(
    name: str, tmp_path: pathlib.Path
):
    own = tmp_path / name
    own.parent.mkdir(exist_ok=True)
    own.write_text("")
    program = (
        "import pipeline.base, importlib.util; print(importlib.util.find_spec('models.registry').origin)"
    )
    found = subprocess.run(
        [sys.executable, "-c", program],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert found.stdout.strip() == str(ROOT / "models/registry.py")
