"""Runs a probe in a process of its own, which may crash, hang or be killed without harm to this one."""

import contextlib
import itertools
import json
import os
import pathlib
import select
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from types import TracebackType
from typing import Self

import numpy as np

from pipeline.exporting.requests import Requests
from pipeline.exporting.runtimes import OTHER_FILES
from pipeline.serving.result import Latency, Limits, Measured

_PROBE = "pipeline.serving.probe"  # given by name, because an import would start TensorFlow here
_ENVIRONMENT = {"TF_FORCE_GPU_ALLOW_GROWTH": "true"}  # otherwise the first of two takes all of a GPU's memory
_BLOCK_BYTES = 1 << 16
KILLED = "was killed (SIGKILL)"
_LONGEST_LINE = 300  # characters of a process's last line that are shown


class ChildError(Exception):
    """Raised where a process ended, hung, or answered with an error; the message is a sentence that says
    which.
    """


class Child:
    """A context in which a probe of `directory` answers questions.

    Args:
      requests: the directory in which they are saved.
      name: the process, as the subject of a sentence.
      seconds: the time limit for all its answers together.
      process_mib: see Limits.
    """

    def __init__(
        self,
        directory: pathlib.Path,
        requests: pathlib.Path,
        *,
        name: str,
        seconds: float,
        process_mib: int | None = None,
    ) -> None:
        self.directory, self._name = directory, name
        self._command = [sys.executable, "-m", _PROBE, str(directory), str(requests), str(process_mib or 0)]
        self._seconds = self._left = seconds
        self._read = b""

    def __enter__(self) -> Self:
        self._errors = tempfile.TemporaryFile()
        self._process = subprocess.Popen(
            self._command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            env=os.environ | _ENVIRONMENT,
            start_new_session=True,  # so that the processes that it starts can be killed with it
        )
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._kill()
        self._process.stdout.close()
        self._process.stdin.close()
        self._errors.close()

    def load(self) -> Mapping:
        """Waits until the process has started, and loads the model; see Probe.load. Raises ChildError."""
        self._receive("while it started")
        return self.ask("load", during="while it was loaded")

    def ask(self, question: str, *, during: str, **arguments: object) -> Mapping:
        """Returns the answer to a question of `Probe`.

        Raises:
          ChildError: there is none; `during` says what the process did, such as "while it was loaded".
        """
        line = json.dumps({"ask": question, "with": arguments}) + "\n"
        try:
            self._process.stdin.write(line.encode())
            self._process.stdin.flush()
        except BrokenPipeError:
            raise self._ended(during) from None
        document = self._receive(during)
        if "error" in document:
            raise ChildError(f"{self._name} raised {document['error']} {during}")
        return document["answer"]

    def _receive(self, during: str) -> Mapping:
        """Returns the next line that is an answer: imported code may print lines of its own."""
        while True:
            with contextlib.suppress(ValueError):
                found = json.loads(self._line(during))
                if isinstance(found, dict):
                    return found

    def _line(self, during: str) -> bytes:
        while b"\n" not in self._read:
            started = time.monotonic()
            ready, _, _ = select.select([self._process.stdout], [], [], max(0.0, self._left))
            self._left -= time.monotonic() - started
            if not ready:
                self._kill()
                waited = f"did not answer within {self._seconds:g} seconds {during}"
                raise ChildError(f"{self._name} {waited}, and was killed")
            block = os.read(self._process.stdout.fileno(), _BLOCK_BYTES)
            if not block:
                raise self._ended(during)
            self._read += block
        line, _, self._read = self._read.partition(b"\n")
        return line

    def _ended(self, during: str) -> ChildError:
        code = self._process.wait()
        self._errors.seek(0)
        lines = [line for line in self._errors.read().decode(errors="replace").splitlines() if line.strip()]
        last = f"; it said last: {lines[-1].strip()[:_LONGEST_LINE]}" if lines else ""
        return ChildError(f"{self._name} {_format_code(code)} {during}{last}")

    def _kill(self) -> None:
        """Ends the process, and those that it started."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()


def _format_code(code: int) -> str:
    """Says in words how a process with this return code ended; they follow a subject, such as "it"."""
    if code == -signal.SIGKILL:
        return f"{KILLED}, as the kernel does where memory runs out,"
    if code < 0:
        return f"crashed ({signal.Signals(-code).name})"
    return f"ended with exit code {code}"


# --- Measurement: latency, memory and size of models that are loaded at the same time, each in its own
# process.


_MIB = 1 << 20


def measure(
    subjects: Sequence[Child], load_seconds: Sequence[float], requests: Requests, limits: Limits
) -> list[Measured]:
    """Measures the cost of each loaded model; they take turns. Raises ChildError."""
    sources = [
        each.ask("choose", during="while it was asked for the first time")["asked"] for each in subjects
    ]
    sizes = dict.fromkeys((1, max(1, len(requests.examples))))
    latencies = [_latencies(subjects, rows, limits) for rows in sizes]
    return [
        Measured(
            latency=latency,
            load_seconds=seconds,
            disk_mib=disk_mib(subject.directory),
            asked=source,
            **subject.ask("memory", during="while its memory was measured"),
        )
        for subject, seconds, source, latency in zip(
            subjects, load_seconds, sources, zip(*latencies, strict=True), strict=True
        )
    ]


def disk_mib(directory: pathlib.Path) -> float:
    """Returns the size of all files except those for other runtimes, which one version may have and another
    lack.
    """
    files = (path for path in directory.rglob("*") if path.is_file() and path.name not in OTHER_FILES)
    return sum(path.stat().st_size for path in files) / _MIB


def _latencies(subjects: Sequence[Child], rows: int, limits: Limits) -> list[Latency]:
    rounds = [
        [each.ask("time", during="while it was timed", rows=rows, calls=calls)["ms"] for each in subjects]
        for calls in _parts(limits.calls, limits.rounds)
    ]
    return [_latency(rows, of_model) for of_model in zip(*rounds, strict=True)]


def _parts(calls: int, rounds: int) -> Iterator[int]:
    """Yields the number of calls in each round, as even as possible and never 0."""
    bounds = [calls * number // rounds for number in range(rounds + 1)]
    return (last - first for first, last in itertools.pairwise(bounds) if last > first)


def _latency(rows: int, rounds: Sequence[Sequence[float]]) -> Latency:
    every = [each for ms in rounds for each in ms]
    return Latency(
        rows=rows,
        calls=len(every),
        median_ms=statistics.median(every),
        p99_ms=float(np.percentile(every, 99)),
        medians=[statistics.median(ms) for ms in rounds],
    )
