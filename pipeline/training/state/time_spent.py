"""The account of a run's time, from the lines of ledger.jsonl."""

import dataclasses
import itertools
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

# Every kind of the account, the telling ones first, with what is in it.
KINDS: Mapping[str, str] = {
    "productive": "steps that count",
    "input": "steps waiting for a batch",
    "compile": "tracing the step, and the first step of each process",
    "evaluation": "validation and the final evaluation",
    "checkpoint": "saving",
    "report": "logs, TensorBoard, the page",
    "callbacks": "Keras callbacks, and the loop itself",
    "start": "until the first batch: imports, the dataset's metadata, building the model",
    "restart": "the same in processes that went on with the run, and restoring",
    "lost": "steps that a kill undid: they were after the last checkpoint",
    "unwritten": "between the last line of a killed process and its end; estimated",
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Process:
    """One process of a run. `from_step` is None where it ended before it knew."""

    number: int
    from_step: int | None
    step: int
    wall_s: float
    was_killed: bool  # it is not the last one, and did not write that it ended


@dataclasses.dataclass(frozen=True, kw_only=True)
class Spent:
    """Seconds by kind, over all processes; they add up to `wall_s`.

    `away_s`, between the end of a process and the start of the next one, is in no kind.
    """

    seconds: Mapping[str, float]
    away_s: float
    longest_save_s: float  # that training waited for one checkpoint
    processes: tuple[Process, ...]

    @property
    def wall_s(self) -> float:
        return sum(self.seconds.values())

    def shares(self) -> Iterator[tuple[str, float]]:
        """Kinds with their share of the wall time, the largest first; those of no time are left out."""
        ordered = sorted(self.seconds.items(), key=lambda item: -item[1])
        return ((kind, seconds / self.wall_s) for kind, seconds in ordered if seconds > 0)


def time_spent(lines: Sequence[Mapping]) -> Spent | None:
    """The account of what `ledger.read` gives; None where there are no lines."""
    groups = [list(group) for _, group in itertools.groupby(lines, key=lambda line: line["process"])]
    if not groups:
        return None
    totals = dict.fromkeys(KINDS, 0.0)
    away = 0.0
    has_begun = False
    for number, group in enumerate(groups):
        for kind, seconds in _of_process(group, groups[number + 1 :], is_first=not has_begun).items():
            totals[kind] += seconds
        has_begun |= group[-1]["from_step"] is not None  # else it was refused or killed before a batch
    for before, after in itertools.pairwise(groups):
        away += max(0.0, _gap(before, after) - _unwritten(before, after))
    longest = max(group[-1].get("longest_save", 0.0) for group in groups)  # earlier versions: not known
    return Spent(seconds=totals, away_s=away, longest_save_s=longest, processes=tuple(_processes(groups)))


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
    """Seconds of the steps that later processes went on from; those after them were undone."""
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
    """Seconds that a killed process lived after its last line: half of the time until its next one."""
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
