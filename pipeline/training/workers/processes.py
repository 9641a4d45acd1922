"""The processes of `--workers=N`: each has a place in a cluster on free ports of this machine."""

import contextlib
import json
import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from typing import IO

_MEMBER = "pipeline.training.workers.member"
_HERE = "localhost"
# A key of TF_CONFIG that TensorFlow leaves to who starts a cluster: "cloud" on Vertex AI.
_ENVIRONMENT = "penstock --workers"
CLUSTER = "TF_CONFIG"


class Worker:
    """A process; number 0 is the chief, whose output a user sees.

    Attributes:
      address: HOST:PORT, at which the others reach it.
      errors: what it writes to stderr: the chief's is a pipe, the others' a file.
    """

    def __init__(self, number: int, address: str, process: subprocess.Popen, *, errors: IO[bytes]) -> None:
        self.number, self.address, self.errors = number, address, errors
        self._process = process
        self.pid = process.pid
        self.ended = os.pidfd_open(process.pid)  # readable when it has

    @property
    def code(self) -> int | None:
        """Exit code, minus a signal's number where one killed it; None while it runs."""
        return self._process.poll()

    def send(self, number: int) -> None:
        """Sends a signal, if it still runs."""
        self._process.send_signal(number)

    def close(self) -> None:
        """Ends it if it has not ended."""
        self._process.kill()
        self._process.wait()
        os.close(self.ended)
        self.errors.close()


def is_member() -> bool:
    """Whether this process is one of those that a launcher has started."""
    with contextlib.suppress(ValueError, AttributeError):
        return json.loads(os.environ.get(CLUSTER, "")).get("environment") == _ENVIRONMENT
    return False


@contextlib.contextmanager
def started(workers: int, command: Sequence[str]) -> Iterator[list[Worker]]:
    """So many processes of a command, the module first; none is left after the block."""
    addresses = _free_addresses(workers)
    alive, held = os.pipe()
    found: list[Worker] = []
    try:
        for number in range(workers):
            found.append(_start(number, addresses, command, alive=alive))
        yield found
    finally:
        for worker in found:
            worker.close()
        os.close(alive)
        os.close(held)


def _start(number: int, addresses: Sequence[str], command: Sequence[str], *, alive: int) -> Worker:
    is_chief = not number
    errors = None if is_chief else tempfile.TemporaryFile()  # noqa: SIM115 - Worker.close closes it
    process = subprocess.Popen(
        [sys.executable, "-m", _MEMBER, *command],
        env=os.environ | {CLUSTER: _cluster(addresses, number)},
        stdin=alive,
        stdout=None if is_chief else subprocess.DEVNULL,
        stderr=subprocess.PIPE if is_chief else errors,
        process_group=0,  # Ctrl-C comes from the launcher, once
    )
    return Worker(number, addresses[number], process, errors=errors or process.stderr)


def _cluster(addresses: Sequence[str], number: int) -> str:
    return json.dumps(
        {
            "cluster": {"worker": list(addresses)},
            "task": {"type": "worker", "index": number},
            "environment": _ENVIRONMENT,
        }
    )


def _free_addresses(count: int) -> list[str]:
    # All are open at once, so that they differ.
    with contextlib.ExitStack() as open_ones:
        servers = [open_ones.enter_context(socket.create_server((_HERE, 0))) for _ in range(count)]
        return [f"{_HERE}:{server.getsockname()[1]}" for server in servers]
