"""Latency, memory and size of models that are loaded side by side, each in a process of its own."""

import dataclasses
import itertools
import pathlib
import statistics
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from pipeline.release.infra.child import Child, ChildError
from pipeline.release.infra.limits import Limits
from pipeline.release.infra.requests import Requests
from pipeline.release.infra.result import Latency, Measured

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
