"""Whether validation got worse while training got better."""

from collections.abc import Iterator, Mapping

import numpy as np

from pipeline.training.report.drawing import formats
from pipeline.training.report.sections.inputs import curve
from pipeline.training.tasks.task import LOSS

_AFTER_BEST = 2  # evaluations: one alone may be chance
_RISE = 0.01  # of the best loss


def overfitting(history: tuple[Mapping, ...]) -> Iterator[tuple[str, str]]:
    """A sentence that says since which step, and one that says what to do; none where it did not happen.

    It happened where all evaluations after the best one, two at least, have a loss more than 1% above it,
    while the training loss sank.

    Args:
      history: lines of `history.jsonl`: `step`, `loss`, and `validation` with its own `loss`.
    """
    steps, losses = (np.asarray(each) for each in curve(history, LOSS.key, validation=True))
    if not losses.size or not np.isfinite(losses).all():
        return
    best = int(losses.argmin())
    after = losses[best + 1 :]
    if len(after) < _AFTER_BEST or after.min() <= losses[best] * (1 + _RISE):
        return
    at_best, at_end = _trained(history, until=steps[best]), _trained(history, until=steps[-1])
    if at_end < at_best:
        yield (
            f"Validation got worse from step {formats.count(int(steps[best]))} on (loss "
            f"{formats.number(losses[best])}, then {formats.number(losses[-1])}) while training got better "
            f"({formats.number(at_best)}, then {formats.number(at_end)}).",
            "The model learns the training examples by heart. --config.train.keep_best=val_loss exports the "
            "best step; fewer steps, more weight decay or dropout, or more data help.",
        )


def _trained(history: tuple[Mapping, ...], *, until: float) -> float:
    """The last training loss that was logged up to a step; NaN where none was."""
    steps, losses = curve(history, LOSS.key)
    before = [loss for step, loss in zip(steps, losses, strict=True) if step <= until]
    return before[-1] if before else np.nan
