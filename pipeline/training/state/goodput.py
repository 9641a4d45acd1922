"""ledger.jsonl records where the wall time of a run went, over all its processes.

Each line holds the sums of one process so far, so the last line of a process has everything. A thread writes
a line from time to time, whatever the process is doing. So after `kill -9` only a little is missing, which
`time_spent` estimates.
"""

import contextlib
import dataclasses
import itertools
import os
import pathlib
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Literal, Self

import numpy as np

from pipeline.base import documents

Kind = Literal["compile", "training", "evaluation", "checkpoint", "report"]  # kinds of blocks
# The kinds of time. `start` lasts until the first step: imports, the dataset's metadata, building and
# restoring the model, the first batch. `callbacks` is all later time that is in no block, including the loop
# itself.
ENTRY_KINDS = ("start", "compile", "training", "input", "evaluation", "checkpoint", "report", "callbacks")
_SHORTEST_INTERVAL_S = 0.2
# Interval between lines, as a share of the run's wall time: on average a kill hides half an interval, and a
# run of months takes only thousands of lines.
_INTERVAL_SHARE = 0.002
_WITHOUT = "an account of the time before"


class GoodputLog:
    """Adds up the seconds of one process and writes them. It is a context manager, which writes the last
    line.

    Args:
      path: path of ledger.jsonl; None for a process that is not the chief, which writes nothing.
      age_s: seconds since the process began.
      clock: function that gives seconds that never go back, from any start.
      now: function that gives seconds since 1970.
      beats: whether a thread writes a line from time to time.

    Raises:
      InputError: a line that an earlier process wrote is damaged.
    """

    def __init__(
        self,
        path: pathlib.Path | None,
        *,
        age_s: float = 0.0,
        clock: Callable[[], float] = time.monotonic,
        now: Callable[[], float] = time.time,
        beats: bool = True,
    ) -> None:
        before = read_goodput(path) if path else []
        if path:
            documents.replace_lines(path, before)  # drops a line that a kill cut short
        self._path, self._clock = path, clock
        self._process = before[-1]["process"] + 1 if before else 1
        self._wall_before = sum(_last_lines(before).values())
        self._began, self._since = now() - age_s, clock()
        self._seconds = dict.fromkeys(ENTRY_KINDS, 0.0) | {"start": age_s}
        self._stack = ["start"]
        self._from_step: int | None = None
        self._step = 0
        self._longest_save = 0.0
        self._lock = threading.RLock()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._beat, name="goodput", daemon=True) if beats else None

    def __enter__(self) -> Self:
        self.write()
        if self._thread and self._path:
            self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._ended.set()
        if self._thread and self._thread.is_alive():
            self._thread.join()
        self.write()

    def began_at(self, step: int) -> None:
        """Sets the step from which training starts."""
        with self._lock:
            self._from_step = self._step = step

    @contextlib.contextmanager
    def during(self, kind: Kind) -> Iterator[None]:
        """A block of one kind of time. Within an inner block, time counts only for the inner kind."""
        self._switch(lambda: self._stack.append(kind))
        try:
            yield
        finally:
            self._switch(self._stack.pop)
            if kind == "checkpoint":
                self.write()  # so that the steps that a later kill undoes are known exactly

    def trained(self, steps: int, *, waited: float, first: bool = False) -> None:
        """Counts steps; `waited` seconds of the last block count as waiting for input instead of its kind.

        Args:
          first: whether the step was a process's first one; then its wait is that for the start of the input
            pipeline.
        """
        source, target = ("compile", "start") if first else ("training", "input")
        with self._lock:
            waited = min(waited, self._seconds[source])
            self._seconds[source] -= waited
            self._seconds[target] += waited
            self._step += steps
            self._stack[0] = "callbacks"

    def saved(self, waited: float) -> None:
        """Counts a checkpoint for which training waited `waited` seconds."""
        with self._lock:
            self._longest_save = max(self._longest_save, waited)

    def write(self) -> None:
        """Appends a line with what is known now."""
        with self._lock:
            self._switch(lambda: None)
            if self._path:
                documents.append_line(self._path, self._line())

    def _line(self) -> dict:
        return {
            "process": self._process,
            "began": round(self._began, 3),  # seconds since 1970
            "wall": round(self._wall(), 4),
            "from_step": self._from_step,  # None if the process was killed before it was known
            "step": self._step,
            "seconds": {kind: round(seconds, 4) for kind, seconds in self._seconds.items()},
            "longest_save": round(
                self._longest_save, 4
            ),  # seconds that training waited for a checkpoint, at most
            "interval": round(self._interval(), 4),  # the most seconds until the next line
            "ended": self._ended.is_set(),
        }

    def _wall(self) -> float:
        return sum(self._seconds.values())

    def _interval(self) -> float:
        return max(_SHORTEST_INTERVAL_S, _INTERVAL_SHARE * (self._wall_before + self._wall()))

    def _switch(self, change: Callable[[], object]) -> None:
        with self._lock:
            now = self._clock()
            self._seconds[self._stack[-1]] += now - self._since
            self._since = now
            change()

    def _beat(self) -> None:
        while not self._ended.wait(self._interval()):
            with contextlib.suppress(OSError):  # the next write reports a full disk
                self.write()


def read_goodput(path: pathlib.Path) -> list[dict]:
    """All whole lines; raises InputError where one is damaged."""
    return documents.read_lines(path, checked=_checked, without=_WITHOUT)


def process_age_s() -> float:
    """Seconds since this process was started, including imports."""
    after_name = pathlib.Path("/proc/self/stat").read_text().rpartition(")")[2].split()
    since_boot = int(after_name[19]) / os.sysconf("SC_CLK_TCK")  # proc(5): field 22, starttime
    return max(0.0, time.clock_gettime(time.CLOCK_BOOTTIME) - since_boot)


def _checked(line: dict) -> dict:
    unknown = set(line["seconds"]) - set(ENTRY_KINDS)
    if unknown:
        raise ValueError(f"unknown kinds of time: {', '.join(sorted(unknown))}")
    return {**line, "process": int(line["process"]), "step": int(line["step"]), "wall": float(line["wall"])}


def _last_lines(lines: list[dict]) -> dict[int, float]:
    return {line["process"]: line["wall"] for line in lines}


# --- The account of a run's time, from the lines of ledger.jsonl.


# Every kind of the account with its description, the most informative first.
KINDS: Mapping[str, str] = {
    "productive": "steps that count",
    "input": "steps after a process's first, waiting for a batch",
    "compile": "tracing the step, and the first step of each process",
    "evaluation": "validation and the final evaluation",
    "checkpoint": "saving",
    "report": "logs, TensorBoard, the page",
    "callbacks": "Keras callbacks, and the loop itself",
    "start": "until the first batch is there: imports, the dataset's metadata, building the model",
    "restart": "the same in processes that went on with the run, and restoring",
    "lost": "steps that a kill undid: they were after the last checkpoint",
    "unwritten": "between the last line of a killed process and its end; estimated",
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Process:
    """One process of a run. `from_step` is None if the process ended before it was known."""

    number: int
    from_step: int | None
    step: int
    wall_s: float
    was_killed: bool  # it did not write that it ended, and a later process followed


@dataclasses.dataclass(frozen=True, kw_only=True)
class Spent:
    """Seconds by kind, over all processes; they add up to `wall_s`.

    `away_s`, the time between the end of a process and the start of the next one, is in no kind.
    """

    seconds: Mapping[str, float]
    away_s: float
    longest_save_s: float  # the longest wait of training for one checkpoint
    processes: tuple[Process, ...]

    @property
    def wall_s(self) -> float:
        return sum(self.seconds.values())

    def shares(self) -> Iterator[tuple[str, float]]:
        """Kinds with their share of the wall time, the largest first; kinds without time are left out."""
        ordered = sorted(self.seconds.items(), key=lambda item: -item[1])
        return ((kind, seconds / self.wall_s) for kind, seconds in ordered if seconds > 0)


def time_spent(lines: Sequence[Mapping]) -> Spent | None:
    """The account of what `read_goodput` returns; None if no process trained or was killed."""
    groups = [list(group) for _, group in itertools.groupby(lines, key=lambda line: line["process"])]
    groups = [group for group in groups if not _was_refused(group[-1])]
    if not groups:
        return None
    totals = dict.fromkeys(KINDS, 0.0)
    away = 0.0
    has_begun = False
    for number, group in enumerate(groups):
        for kind, seconds in _of_process(group, groups[number + 1 :], is_first=not has_begun).items():
            totals[kind] += seconds
        # Otherwise it was killed before its first batch.
        has_begun |= group[-1]["from_step"] is not None
    for before, after in itertools.pairwise(groups):
        away += max(0.0, _gap(before, after) - _unwritten(before, after))
    longest = max(group[-1]["longest_save"] for group in groups)
    return Spent(seconds=totals, away_s=away, longest_save_s=longest, processes=tuple(_processes(groups)))


def _was_refused(last: Mapping) -> bool:
    """Returns whether a process ended by itself before it could train, as where its model was refused: it is
    no part of the run.
    """
    return last["ended"] and last["from_step"] is None


def _of_process(
    group: Sequence[Mapping], later: Sequence[Sequence[Mapping]], *, is_first: bool
) -> dict[str, float]:
    last = group[-1]
    seconds = dict(last["seconds"])
    begin = seconds.pop("start")
    steps = {"productive": seconds.pop("training"), "input": seconds.pop("input")}
    kept = _kept(group, later) if later else steps
    restarted = not is_first or bool(last["from_step"])
    return {
        **seconds,
        **kept,
        "lost": sum(steps.values()) - sum(kept.values()),
        "restart" if restarted else "start": begin,
        "unwritten": _unwritten(group, later[0]) if later else 0.0,
    }


def _kept(group: Sequence[Mapping], later: Sequence[Sequence[Mapping]]) -> dict[str, float]:
    """Seconds of the steps from which later processes continued; the steps after them were lost."""
    starts = [line["from_step"] for other in later for line in other[-1:] if line["from_step"] is not None]
    last = group[-1]
    horizon = min(starts, default=last["step"])
    if last["from_step"] is None:
        return {"productive": 0.0, "input": 0.0}
    # The first line of a step is the one nearest to its end.
    first_of = {line["step"]: line["seconds"] for line in reversed(group) if line["from_step"] is not None}
    first_of[last["from_step"]] = {"training": 0.0, "input": 0.0}
    steps = sorted(first_of)
    return {
        name: float(np.interp(horizon, steps, [first_of[step][kind] for step in steps]))
        for name, kind in (("productive", "training"), ("input", "input"))
    }


def _gap(before: Sequence[Mapping], after: Sequence[Mapping]) -> float:
    """Seconds from the last line of a process to the start of the next one."""
    return max(0.0, after[-1]["began"] - before[-1]["began"] - before[-1]["wall"])


def _unwritten(before: Sequence[Mapping], after: Sequence[Mapping]) -> float:
    """Seconds that a killed process lived after its last line: half of the time until its next line."""
    return 0.0 if before[-1]["ended"] else min(before[-1]["interval"] / 2, _gap(before, after))


def _processes(groups: Sequence[Sequence[Mapping]]) -> Iterator[Process]:
    for number, group in enumerate(groups, 1):
        last = group[-1]
        yield Process(
            number=number,
            from_step=last["from_step"],
            step=last["step"],
            wall_s=last["wall"],
            was_killed=number < len(groups) and not last["ended"],
        )
