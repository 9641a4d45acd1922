"""Real data services for tests, each a process that ends with the test."""

import contextlib
import subprocess
import sys
from collections.abc import Iterator

SERVING = "serving --data_service="


@contextlib.contextmanager
def serving(count: int) -> Iterator[list[str]]:
    """The addresses of so many services."""
    with contextlib.ExitStack() as ended:
        started = [start() for _ in range(count)]
        for process in started:
            ended.callback(kill, process)
        yield [address_of(process) for process in started]


def start(*flags: str) -> subprocess.Popen:
    command = [sys.executable, "-m", "pipeline.data_service", *(flags or ["--port=0"])]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def address_of(process: subprocess.Popen) -> str:
    """Waits until it serves."""
    line = process.stdout.readline()
    assert line.startswith(SERVING), line
    return line.removeprefix(SERVING).strip()


def kill(process: subprocess.Popen) -> None:
    process.kill()
    process.wait()
    process.stdout.close()
