"""The helpers that need tests of their own."""

import os
import pathlib
import select
import signal
import subprocess
import sys
from collections.abc import Callable

import pytest

from tests.shared import forked, once

# Forks do not outlive the process that waits for them.


def test_a_fork_ends_when_its_parent_is_killed(tmp_path: pathlib.Path):
    reads, writes = os.pipe()

    def body() -> None:
        os.write(writes, f"{os.getpid()}\n".encode())
        signal.pause()

    parent = os.fork()
    if not parent:
        forked.call(body, tmp_path, timeout=60)
        os._exit(0)
    child = os.pidfd_open(int(os.read(reads, 20)))
    os.kill(parent, signal.SIGKILL)
    os.waitpid(parent, 0)
    assert select.select([child], [], [], 10)[0] == [child]


def test_what_is_preloaded_defines_no_flags_that_a_command_may_define_in_a_fork():
    code = (
        "OURS = ('beam_jobs', 'pipeline');"
        "from absl import flags; from tests.shared.preloaded import preload_without_tensorflow as preload;"
        "preload(); print([m for m in flags.FLAGS.flags_by_module_dict() if m.split('.')[0] in OURS])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=pathlib.Path(__file__).parents[2],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "[]\n"


# A folder is made once, whoever asks, and anew where making it failed.


def test_the_second_gets_what_the_first_made(tmp_path_factory: pytest.TempPathFactory):
    made: list[pathlib.Path] = []
    for _ in range(2):
        assert once.folder(tmp_path_factory, "made-once", made.append).is_dir()
    assert len(made) == 1


def test_what_failed_is_made_anew(tmp_path_factory: pytest.TempPathFactory):
    def fail(path: pathlib.Path) -> None:
        (path / "half").touch()
        raise ValueError

    with pytest.raises(ValueError):
        once.folder(tmp_path_factory, "made-again", fail)
    path = once.folder(tmp_path_factory, "made-again", lambda path: (path / "whole").touch())
    assert [each.name for each in path.iterdir()] == ["whole"]


# A command of the warm Python gets what its own process would get, and ends as that would end.

Run = Callable[..., subprocess.CompletedProcess]


@pytest.fixture
def run(warm_python: pathlib.Path, tmp_path: pathlib.Path) -> Run:
    def run(*arguments: str, **changes: object) -> subprocess.CompletedProcess:
        command = [warm_python, *arguments]
        return subprocess.run(command, **({"cwd": tmp_path, "capture_output": True, "text": True} | changes))

    return run


def test_libraries_are_there_and_nothing_of_this_project(run: Run):
    code = "import sys; print('tensorflow' in sys.modules, {'pipeline', 'beam_jobs'} & {*sys.modules})"
    assert run("-c", code).stdout == "True set()\n"


def test_arguments_environment_folder_and_input(run: Run, tmp_path: pathlib.Path):
    told = "import os, sys; print(__name__, sys.argv, os.environ['KIND'], os.getcwd())"
    changed = {"env": os.environ | {"KIND": "odd"}}
    (tmp_path / "told.py").write_text(told)
    where = f"odd {tmp_path}\n"
    assert run("-m", "told", "a b", **changed).stdout == f"__main__ ['{tmp_path}/told.py', 'a b'] {where}"
    assert run("-c", told, "a b", **changed).stdout == f"__main__ ['-c', 'a b'] {where}"
    assert run("-", "a b", input=told, **changed).stdout == f"__main__ ['-', 'a b'] {where}"


@pytest.mark.parametrize(
    ("code", "ended", "told"),
    [
        ("raise SystemExit(3)", 3, ""),
        ("raise SystemExit('no')", 1, "no\n"),
        ("1 / 0", 1, "ZeroDivisionError: division by zero\n"),
        ("import os; os.abort()", -signal.SIGABRT, ""),
    ],
)
def test_it_ends_as_the_command_ends(run: Run, code: str, ended: int, told: str):
    done = run("-c", code)
    assert done.returncode == ended
    assert done.stderr.endswith(told)


def test_what_python_reads_at_its_start_takes_a_fresh_one(run: Run, tmp_path: pathlib.Path):
    code = "import sys; print(sys.path[1], 'tensorflow' in sys.modules)"
    done = run("-c", code, env=os.environ | {"PYTHONPATH": str(tmp_path)})
    assert done.stdout == f"{tmp_path} False\n"


def test_a_command_ends_with_the_program_that_asked_for_it(warm_python: pathlib.Path):
    code = "import signal; print('started', flush=True); signal.pause()"
    with subprocess.Popen([warm_python, "-c", code], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "started\n"
        process.kill()
        assert process.stdout.read() == ""  # closed when the command, which holds it too, has ended
