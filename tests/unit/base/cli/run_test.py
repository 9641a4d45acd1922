"""What ends a command is told in one line, also where stdout takes nothing."""

import pathlib
import subprocess
import sys

import pytest

from pipeline.base.errors import EXIT_BAD_INPUT, EXIT_TRY_AGAIN
from tests.house.imports import ROOT


def ended(code: str, redirection: str = "", *arguments: str) -> tuple[int, str]:
    """Exit code and stderr of a command whose main is `code`, under a shell that redirects its streams."""
    whole = f"""
from pipeline.base.cli.command import Command
from pipeline.base.cli.run import run_command
def main(argv):
    {code}
run_command(main, Command(name="some", description="", flags={{}}))
"""
    shell = ["sh", "-c", f'"$@" {redirection}', "sh", sys.executable, "-c", whole, *arguments]
    done = subprocess.run(shell, cwd=ROOT, capture_output=True, text=True, check=False)
    return done.returncode, done.stderr


@pytest.mark.parametrize("redirection", [">&-", "2>&-", ">&- 2>&-", "<&- >&- 2>&-"])
def test_streams_that_are_closed(redirection: str):
    assert ended("import sys; print('seen', file=sys.stderr); print('seen')", redirection)[0] == 0


@pytest.mark.parametrize(
    "code",
    [
        "print('to a full disk')",
        "print('to a full disk', flush=True)",
        "raise RuntimeError('part-0; No space left on device [Op:SaveV2]')",
    ],
)
def test_a_full_disk(code: str):
    exit_code, told = ended(code, ">/dev/full")
    assert exit_code == EXIT_BAD_INPUT
    (line,) = told.splitlines()
    assert "a disk that is full" in line


def test_a_file_that_the_system_lets_no_byte_into(tmp_path: pathlib.Path):
    code = f"""import resource
    from pipeline.base import files
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))  # of a file that is open, as on a full disk
    files.write_bytes({str(tmp_path / "full")!r}, b"1")"""
    exit_code, told = ended(code)
    assert (exit_code, len(told.splitlines())) == (EXIT_BAD_INPUT, 1), told
    assert told.startswith(f"error: {tmp_path / 'full'}: ")
    assert not list(tmp_path.iterdir())


def test_a_flag_of_a_thousand_letters():
    exit_code, told = ended("pass", "", f"--{'x' * 5000}=1")
    assert exit_code == EXIT_BAD_INPUT
    assert told.startswith("error: --xxxxxxxxxxxxxxxxxxxx…: received a flag that this command does not have")


def test_a_name_with_nul(tmp_path: pathlib.Path):
    (tmp_path / "flags").write_text("--some=a\0b\n")
    exit_code, told = ended("pass", "", f"--flagfile={tmp_path / 'flags'}")
    assert (exit_code, len(told.splitlines())) == (EXIT_BAD_INPUT, 1)
    assert told.startswith("error: --flagfile: received the flag")


@pytest.mark.parametrize("what", ["print('the summary')", "open('/dev/full', 'wb', 0).write(b'1')"])
def test_a_full_disk_when_the_result_is_published(what: str):
    code = f"""from pipeline.base.cli import command
    with command.announce_published("the dataset new"):
        {what}"""
    exit_code, told = ended(code, ">/dev/full")
    assert (exit_code, len(told.splitlines())) == (EXIT_BAD_INPUT, 1)
    assert told.endswith("the dataset new is published, and whole.\n")


@pytest.mark.parametrize(
    ("code", "said"),
    [
        (
            "import threading as t; t.Thread(target=bytearray, args=[1 << 60]).start(); t.Event().wait()",
            "this command: received too little memory",
        ),
        ("raise MemoryError", "some: received too little memory (MemoryError)"),
        (
            "import resource; resource.setrlimit(resource.RLIMIT_NOFILE, (3, 3)); open('a')",
            "too many open files",
        ),
    ],
)
def test_what_the_machine_lacks_is_one_line_and_may_be_there_later(code: str, said: str):
    exit_code, told = ended(code)
    assert (exit_code, len(told.splitlines())) == (EXIT_TRY_AGAIN, 1), told
    assert said in told


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("signals.handle_signals(); raise MemoryError", "this command: received too little memory"),
        (
            "signals.handle_signals(addresses=8 << 30)",
            "memory: received a limit of 4.3 GB on the address",
        ),
    ],
)
def test_memory_that_ends_in_the_imports_of_a_command(code: str, said: str):
    limit = "import resource; resource.setrlimit(resource.RLIMIT_AS, (4 << 30, 4 << 30))"
    whole = f"{limit}; from pipeline.base.cli import signals; {code}"
    done = subprocess.run(
        [sys.executable, "-c", whole], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert (done.returncode, len(done.stderr.splitlines())) == (EXIT_TRY_AGAIN, 1), done.stderr
    assert said in done.stderr
