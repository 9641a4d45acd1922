"""Real data services for tests, each a process that ends with the test."""

import contextlib
import pathlib
import subprocess
import sys
from collections.abc import Iterator

SERVING = "serving --data_service="


@contextlib.contextmanager
def serving(count: int, python: pathlib.Path) -> Iterator[list[str]]:
    """The addresses of so many services, which `python` runs."""
    with contextlib.ExitStack() as ended:
        started = [start(python=python) for _ in range(count)]
        for process in started:
            ended.callback(kill, process)
        yield [address_of(process) for process in started]


def start(*flags: str, python: str | pathlib.Path = sys.executable) -> subprocess.Popen:
    command = [python, "-m", "pipeline.data_service", *(flags or ["--port=0"])]
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
