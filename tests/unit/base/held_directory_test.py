"""A directory is one process's at a time, and it is told whose."""

import os
import socket
import subprocess
import sys

import pytest

from pipeline.base.errors import InputError
from pipeline.base.files import hold_directory

HOLD = (
    "import fcntl, os, sys; fcntl.flock(os.open(sys.argv[1], os.O_RDONLY), fcntl.LOCK_EX); print(); input()"
)


def test_who_holds_it_is_told(tmp_path):
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, tmp_path], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as other:
        other.stdout.readline()
        whose = (
            rf"--workdir=x: received a directory that process {other.pid} of host {socket.gethostname()}, "
        )
        with (
            pytest.raises(InputError, match=rf"{whose}running since 20\d\d-"),
            hold_directory(tmp_path, thing="--workdir=x"),
        ):
            pass
        other.kill()
        other.wait()
        with hold_directory(tmp_path, thing="--workdir=x"):  # what died holds nothing
            pass


def test_it_is_free_again_after_an_error(tmp_path):
    for _ in range(2):
        with pytest.raises(ZeroDivisionError), hold_directory(tmp_path, thing="--workdir"):
            raise ZeroDivisionError
    assert os.listdir(tmp_path) == []  # noqa: PTH208
