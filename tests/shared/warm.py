"""A `python` that starts warm: commands run in forks of a server that has imported TensorFlow and Beam.

Importing TensorFlow takes seconds of CPU. `python(folder)` writes a program that takes what Python takes,
hands it to the server with its streams, folder and environment, and ends as the command ends. The server
imports other people's modules only: a command imports this project's from its own folder.

What is about processes (signals, locks, memory, the imports themselves) starts `sys.executable` instead.
"""

import contextlib
import functools
import gc
import importlib
import json
import os
import pathlib
import runpy
import select
import signal
import socket
import subprocess
import sys
import types
from collections.abc import Iterator, Sequence

from tests.shared import forked

WITHOUT_TENSORFLOW = (
    "apache_beam.runners.portability.fn_api_runner",
    "ml_collections.config_flags",
    "pyarrow.csv",
    "pyarrow.parquet",
    "tensorflow_metadata.proto.v0.statistics_pb2",
)
IMPORTED = ("tensorflow", "apache_beam.ml.inference.base", *WITHOUT_TENSORFLOW)
_OURS = ("beam_jobs", "models", "penstock", "pipeline", "tests")
_SIZE = 8  # hexadecimal digits before a message
_SERVED = ("-c", "-m", "-")
_STARTED = b"serves\n"
_JEMALLOC = "jemalloc_bg_thd"  # a thread of PyArrow's that knows of forks
# Runs without the packages of the environment, as they cost most of a start.
_PROGRAM = """#!{python} -SE
import json, os, signal, socket, sys

# Python reads them when it starts: a fork has those of the server.
told = {{name: value for name, value in os.environ.items() if name.startswith("PYTHON")}}
if told != {told} or not sys.argv[1:] or sys.argv[1] not in {served}:
    os.execv({python!r}, [{python!r}, *sys.argv[1:]])
server = socket.socket(socket.AF_UNIX)
server.connect({address!r})
asked = json.dumps([sys.argv[1:], os.getcwd(), dict(os.environ)]).encode()
socket.send_fds(server, [b"%0{size}x" % len(asked) + asked], [0, 1, 2])
code = int(server.recv(16))
if code < 0:
    if code != -signal.SIGKILL:
        signal.signal(-code, signal.SIG_DFL)
    os.kill(os.getpid(), -code)
sys.exit(code)
"""


@contextlib.contextmanager
def python(folder: pathlib.Path, *, imported: Sequence[str] = IMPORTED) -> Iterator[pathlib.Path]:
    """Gives the program, `python` in `folder`, whose server has `imported`; it works until the block ends."""
    address, program = folder / "socket", folder / "python"
    told = {name: value for name, value in os.environ.items() if name.startswith("PYTHON")}
    program.write_text(
        _PROGRAM.format(python=sys.executable, served=_SERVED, told=told, address=str(address), size=_SIZE)
    )
    program.chmod(0o755)
    environment = os.environ | {"OPENBLAS_NUM_THREADS": "1"}  # so that it has no threads
    command = [sys.executable, "-m", "tests.shared.warm", str(address), *imported]
    root = pathlib.Path(__file__).parents[2]
    with subprocess.Popen(
        command, cwd=root, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as server:
        assert server.stdout.readline() == _STARTED
        yield program
        server.stdin.close()


def serve(address: str, imported: Sequence[str]) -> None:
    """Answers until stdin is closed."""
    _import(imported)
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(address)
        listening.listen()
        os.write(1, _STARTED)
        while True:
            readable, _, _ = select.select([0, listening], [], [])
            _reap()
            if 0 in readable:
                return
            connection, _ = listening.accept()
            if not os.fork():
                forked.end_with(functools.partial(_answer, connection))
            connection.close()


def _import(imported: Sequence[str]) -> None:
    """Imports what commands import, and leaves no thread: a fork would lack it, with the locks it holds."""
    if "tensorflow" in imported:
        from pipeline.base import tensorflow_start  # noqa: F401 - before TensorFlow

    for module in imported:
        importlib.import_module(module)
    for name in [name for name in sys.modules if name.partition(".")[0] in _OURS]:
        del sys.modules[name]
    threads = [path.read_text().strip() for path in pathlib.Path("/proc/self/task").glob("*/comm")]
    others = [name for name in threads if name != _JEMALLOC]
    if len(others) != 1:
        raise RuntimeError(f"an import has started a thread, and forks may hang: {', '.join(others)}")
    gc.freeze()  # or a collection in a fork would touch, and copy, every page


def _reap() -> None:
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def _answer(connection: socket.socket) -> None:
    """Runs the command in a fork of this fork, which tells how it ended; ends it if nobody waits any more."""
    asked, streams = _receive(connection)
    os.setsid()
    command = os.fork()
    if not command:
        forked.end_with(lambda: _run(*asked, streams))
    if connection in select.select([os.pidfd_open(command), connection], [], [])[0]:
        os.killpg(0, signal.SIGKILL)
    _, status = os.waitpid(command, 0)
    connection.sendall(b"%d" % os.waitstatus_to_exitcode(status))


def _receive(connection: socket.socket) -> tuple[tuple[Sequence[str], str, dict[str, str]], Sequence[int]]:
    head, streams, _, _ = socket.recv_fds(connection, _SIZE, 3)
    size = int(head, 16)
    with connection.makefile("rb") as rest:
        return json.loads(rest.read(size)), streams


def _run(arguments: Sequence[str], folder: str, environment: dict[str, str], streams: Sequence[int]) -> None:
    """As Python does with such a command line."""
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    kind, *rest = arguments
    sys.path[0] = folder if kind == "-m" else ""
    sys.argv = rest if kind == "-m" else arguments if kind == "-" else ["-c", *rest[1:]]
    if kind == "-m":
        runpy.run_module(rest[0], run_name="__main__", alter_sys=True)
    else:
        main = sys.modules["__main__"] = types.ModuleType("__main__")
        exec(compile(sys.stdin.read() if kind == "-" else rest[0], "<string>", "exec"), main.__dict__)


if __name__ == "__main__":
    serve(sys.argv[1], sys.argv[2:])
