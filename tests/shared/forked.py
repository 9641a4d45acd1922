"""Runs commands in forks of this process, which has imported what they need: that saves seconds for each.

A fork sees its command line in sys.argv and runs the command's module as `__main__`, as `python -m` does. It
has output files, a memory limit and an end of its own. Import the libraries first, start no thread, and let
TensorFlow compute nothing in the parent.
"""

import ctypes
import dataclasses
import gc
import os
import pathlib
import resource
import runpy
import select
import signal
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from typing import NoReturn

_END_WITH_PARENT = 1  # PR_SET_PDEATHSIG of prctl(2)
_LIBC = ctypes.CDLL(None)
_FAILED = 1  # as Python ends after an uncaught exception


@dataclasses.dataclass(frozen=True, kw_only=True)
class Ended:
    """What is left of a command. `code` is minus a signal's number, as of `subprocess`."""

    code: int
    stdout: str
    stderr: str
    seconds: float
    cpu_seconds: float
    peak_mib: float  # resident memory, that of the parent's imports included
    timed_out: bool

    @property
    def error_lines(self) -> list[str]:
        return [line for line in self.stderr.splitlines() if line.strip()]


def command(
    arguments: Sequence[str], folder: pathlib.Path, *, timeout: float, memory_mib: int | None = None
) -> Ended:
    """Runs `python -m MODULE …`, whose `arguments` start with MODULE; its output is kept in `folder`."""
    return call(lambda: run_module(arguments), folder, timeout=timeout, memory_mib=memory_mib)


def run_module(arguments: Sequence[str]) -> None:
    """What `python -m MODULE …` does, in this process."""
    module, *rest = arguments
    sys.argv = [module, *rest]
    runpy.run_module(module, run_name="__main__", alter_sys=True)


def call(
    body: Callable[[], object], folder: pathlib.Path, *, timeout: float, memory_mib: int | None = None
) -> Ended:
    """Runs `body` in a fork; SystemExit gives the code, another exception a traceback and code 1."""
    started = time.monotonic()
    child = start(body, folder, memory_mib=memory_mib)
    timed_out = not ends_within(child, timeout)
    if timed_out:
        os.killpg(child, signal.SIGKILL)
    _, status, usage = os.wait4(child, 0)
    stdout, stderr = (stream.read_text(errors="replace") for stream in _streams(folder))
    return Ended(
        code=os.waitstatus_to_exitcode(status),
        stdout=stdout,
        stderr=stderr,
        seconds=time.monotonic() - started,
        cpu_seconds=usage.ru_utime + usage.ru_stime,
        peak_mib=usage.ru_maxrss / 1024,
        timed_out=timed_out,
    )


def end_with_parent() -> None:
    """Makes the kernel kill this process when the one that forked it ends, however that ends."""
    _LIBC.prctl(_END_WITH_PARENT, signal.SIGKILL)


def start(body: Callable[[], object], folder: pathlib.Path, *, memory_mib: int | None = None) -> int:
    """The process id of a fork that runs `body` in a session of its own; its output goes to `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    for flushed in (sys.stdout, sys.stderr):
        flushed.flush()
    child = os.fork()
    if not child:
        end_with(lambda: (_prepare(_streams(folder), memory_mib), body()))
    return child


def _streams(folder: pathlib.Path) -> list[pathlib.Path]:
    return [folder / "stdout", folder / "stderr"]


def ends_within(child: int, seconds: float) -> bool:
    """Whether it does; the caller still waits for it, to learn how it ended."""
    descriptor = os.pidfd_open(child)
    try:
        return bool(select.select([descriptor], [], [], seconds)[0])
    finally:
        os.close(descriptor)


def end_with(body: Callable[[], object]) -> NoReturn:
    """Runs `body` as the last thing of a fork, without what the parent would do at its own end."""
    code = _FAILED
    try:
        body()
        code = 0
    except SystemExit as ended:
        if isinstance(ended.code, str):
            print(ended.code, file=sys.stderr)
        code = ended.code if isinstance(ended.code, int) else 0 if ended.code is None else _FAILED
    except BaseException:
        traceback.print_exc()
    finally:
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        os._exit(code)


def _prepare(streams: Sequence[pathlib.Path], memory_mib: int | None) -> None:
    os.setsid()
    end_with_parent()
    gc.freeze()  # or a collection would touch, and copy, every page of the parent
    for number, stream in enumerate(streams, start=1):
        file = os.open(stream, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(file, number)
        os.close(file)
    if memory_mib:
        resource.setrlimit(resource.RLIMIT_DATA, (memory_mib << 20, memory_mib << 20))
