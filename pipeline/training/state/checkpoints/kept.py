"""Which checkpoints a run keeps, and which one a command takes."""

import dataclasses
import math
import pathlib
from collections.abc import Sequence

from pipeline.data.errors import InputError
from pipeline.training.state.checkpoints import directory, manifest
from pipeline.training.state.checkpoints.directory import Entry
from pipeline.training.state.checkpoints.manifest import DamagedError

LAST, BEST = "last", "best"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Kept:
    """The newest `number` checkpoints and, where `metric` is given, the best one by it."""

    number: int
    metric: str = ""  # such as val_loss
    is_higher_better: bool = False

    def superseded(self, entries: Sequence[Entry]) -> list[Entry]:
        """Those of `entries`, the newest first, that are not kept."""
        best = {entry.step for entry in self.best_first(entries)[:1]}
        return [entry for entry in entries[self.number :] if entry.step not in best]

    def usual(self, root: pathlib.Path) -> str:
        """What is taken where nothing is asked for: the best, where there is one."""
        return BEST if self.best_first(directory.newest_first(root)) else LAST

    def best_first(self, entries: Sequence[Entry]) -> list[Entry]:
        """Those of `entries` whose metric is known; of equal ones the earlier is better."""
        known = [(value, entry) for entry in entries if (value := _metric(entry, self.metric)) is not None]
        sign = -1 if self.is_higher_better else 1
        return [entry for _, entry in sorted(known, key=lambda one: (sign * one[0], one[1].step))]


def chosen(root: pathlib.Path, choice: str, *, kept: Kept, up_to: int | None = None) -> list[Entry]:
    """What a command may take, the first choice first: where that is damaged, the next.

    Args:
      choice: `last`, `best` or a step, of which there is one alone.
      up_to: the most steps that a checkpoint may have; None: any.

    Raises:
      InputError: the run keeps no best one, or there is none of that step.
    """
    entries = directory.newest_first(root)
    if choice == LAST:
        return [entry for entry in entries if up_to is None or entry.step <= up_to]
    if choice == BEST:
        best = kept.best_first(entries)
        if not best:
            raise _error(
                root, choice, entries, "Train with --config.train.keep_best=val_loss to have a best one."
            )
        return best
    of_step = [entry for entry in entries if str(entry.step) == choice]
    if not of_step:
        raise _error(root, choice, entries, "Choose one of these, or --checkpoint=last.")
    return of_step


def all_damaged(root: pathlib.Path, choice: str, damage: Sequence[str]) -> InputError:
    """The error where all that a command may take is damaged; `damage` says what of each."""
    way_out = "train in an empty --workdir" if choice == LAST else f"take --checkpoint={LAST}"
    return InputError(
        f"checkpoints {root}",
        received=f"damaged files ({'; '.join(damage)})",
        expected="the files that the training run wrote there",
        action=f"Restore the files from a copy, or {way_out}.",
    )


def described(step: int, choice: str, *, kept: Kept) -> str:
    """Which checkpoint was taken, for a line that tells."""
    words = {LAST: "the last one", BEST: f"the best by {kept.metric}"}
    return f"step {step:,}, {words.get(choice, 'as asked for')}"


def _metric(entry: Entry, name: str) -> float | None:
    if entry.is_flat or not name:
        return None
    try:
        value = manifest.read(entry.path).metrics.get(name)
    except DamagedError:
        return None
    return value if value is not None and math.isfinite(value) else None


def _error(root: pathlib.Path, choice: str, entries: Sequence[Entry], action: str) -> InputError:
    steps = ", ".join(sorted({f"{entry.step}" for entry in entries}, key=int))
    return InputError(
        f"--checkpoint={choice}",
        received=f"checkpoints of the steps {steps} in {root}" if steps else f"no checkpoint in {root}",
        expected=f"{BEST}, {LAST} or one of these steps",
        action=action,
    )
