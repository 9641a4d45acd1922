"""A probe in a process of its own, which may crash, hang or be killed without harm to this one."""

import contextlib
import dataclasses
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
from pipeline.serving.result import Latency, Limits, Measured

_PROBE = "pipeline.serving.probe"  # by name: importing it here would take what it must do without
_ENVIRONMENT = {"TF_FORCE_GPU_ALLOW_GROWTH": "true"}  # the first of two would take all of a GPU's memory
_BLOCK_BYTES = 1 << 16
_LONGEST_LINE = 300  # characters of what a process said last


class ChildError(Exception):
    """The process ended, hung, or answered with an error; the message says which, as part of a sentence."""


class Child:
    """A context in which a probe of `directory` answers questions.

    Args:
      requests: the directory in which they are saved.
      seconds: that may be spent on waiting for its answers, all together.
      process_mib: see Limits.
    """

    def __init__(
        self,
        directory: pathlib.Path,
        requests: pathlib.Path,
        *,
        seconds: float,
        process_mib: int | None = None,
    ) -> None:
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
            start_new_session=True,  # so that what it starts can be killed with it
        )
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._kill()
        self._process.stdout.close()
        self._process.stdin.close()
        self._errors.close()

    def start(self) -> None:
        """Waits until it has imported what it needs; raises ChildError."""
        self._answered("while it started")

    def ask(self, question: str, *, during: str, **arguments: object) -> Mapping:
        """The answer to a question of `Probe`.

        Raises:
          ChildError: there is none; `during` says what the process did, as in "while it was loaded".
        """
        line = json.dumps({"ask": question, "with": arguments}) + "\n"
        try:
            self._process.stdin.write(line.encode())
            self._process.stdin.flush()
        except BrokenPipeError:
            raise ChildError(self._ended(during)) from None
        document = self._answered(during)
        if "error" in document:
            raise ChildError(f"raised {document['error']} {during}")
        return document["answer"]

    def _answered(self, during: str) -> Mapping:
        """The next line that is an answer: what is imported may print lines of its own."""
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
                raise ChildError(f"did not answer within {self._seconds:g} seconds {during}, and was killed")
            block = os.read(self._process.stdout.fileno(), _BLOCK_BYTES)
            if not block:
                raise ChildError(self._ended(during))
            self._read += block
        line, _, self._read = self._read.partition(b"\n")
        return line

    def _ended(self, during: str) -> str:
        code = self._process.wait()
        return f"{_told(code)} {during}{self._said_last()}"

    def _said_last(self) -> str:
        self._errors.seek(0)
        lines = [line for line in self._errors.read().decode(errors="replace").splitlines() if line.strip()]
        return f"; it said last: {lines[-1].strip()[:_LONGEST_LINE]}" if lines else ""

    def _kill(self) -> None:
        """Ends it, and what it started."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()


def _told(code: int) -> str:
    """How a process ended, of its return code."""
    if code == -signal.SIGKILL:
        return "was killed (SIGKILL), as the kernel does where memory runs out,"
    if code < 0:
        return f"crashed ({signal.Signals(-code).name})"
    return f"ended with exit code {code}"


# --- Latency, memory and size of models that are loaded side by side, each in a process of its own.


_MIB = 1 << 20


@dataclasses.dataclass(frozen=True, kw_only=True)
class Subject:
    """A model in its process; `told` names it as the subject of a sentence."""

    told: str
    directory: pathlib.Path
    child: Child

    def ask(self, question: str, *, during: str, **arguments: object) -> Mapping:
        """As Child.ask; the message of its ChildError is a whole sentence."""
        try:
            return self.child.ask(question, during=during, **arguments)
        except ChildError as error:
            raise ChildError(f"{self.told} {error}") from None

    def load(self) -> Mapping:
        """Starts the process and loads the model; see Probe.load."""
        try:
            self.child.start()
        except ChildError as error:
            raise ChildError(f"{self.told} {error}") from None
        return self.ask("load", during="while it was loaded")


def measure(
    subjects: Sequence[Subject], load_seconds: Sequence[float], requests: Requests, limits: Limits
) -> list[Measured]:
    """What each of the loaded models costs; they take turns. Raises ChildError."""
    asked = [each.ask("choose", during="while it was asked for the first time")["asked"] for each in subjects]
    sizes = dict.fromkeys((1, max(1, len(requests.examples))))
    latencies = [_latencies(subjects, rows, limits) for rows in sizes]
    return [
        Measured(
            latency=of_subject,
            load_seconds=seconds,
            disk_mib=disk_mib(subject.directory),
            asked=examples,
            **subject.ask("memory", during="while its memory was measured"),
        )
        for subject, seconds, examples, of_subject in zip(
            subjects, load_seconds, asked, zip(*latencies, strict=True), strict=True
        )
    ]


def disk_mib(directory: pathlib.Path) -> float:
    """Of all files."""
    return sum(path.stat().st_size for path in directory.rglob("*") if path.is_file()) / _MIB


def _latencies(subjects: Sequence[Subject], rows: int, limits: Limits) -> list[Latency]:
    rounds = [
        [each.ask("time", during="while it was timed", rows=rows, calls=calls)["ms"] for each in subjects]
        for calls in _parts(limits.calls, limits.rounds)
    ]
    return [_latency(rows, of_subject) for of_subject in zip(*rounds, strict=True)]


def _parts(calls: int, rounds: int) -> Iterator[int]:
    """The calls of each round, as even as can be, none empty."""
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
