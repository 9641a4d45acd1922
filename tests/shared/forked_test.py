"""Forks do not outlive the process that waits for them."""

import os
import pathlib
import select
import signal

from tests.shared import forked


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
