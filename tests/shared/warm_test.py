"""A command of the warm Python gets what its own process would get, and ends as that would end."""

import os
import pathlib
import signal
import subprocess
from collections.abc import Callable

import pytest

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
