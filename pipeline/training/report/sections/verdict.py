"""What an evaluation itself tells against a model, or against the split that it was scored on."""

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from pipeline.training.report.drawing import formats
from pipeline.training.report.sections.baselines import majority, prior_loss
from pipeline.training.report.sections.inputs import as_float
from pipeline.training.report.sections.results import confusion

_MAX_NAMES = 6


def verdict(evaluation: Mapping) -> Iterator[tuple[str, str]]:
    """Sentences that say what is wrong, each with one that says what to do about it."""
    r2 = as_float(evaluation.get("r2"))
    if r2 is not None and r2 < 0:
        yield (
            f"R² is {formats.number(r2)}: always answering the mean label would be nearer.",
            "Training was too short or its steps too large, or the features do not tell the label.",
        )
    counts, classes = confusion(evaluation)
    if counts.size:
        yield from _of_classes(counts, classes)
        yield from _of_loss(as_float(evaluation.get("loss")), counts)


def _of_loss(loss: float, counts: np.ndarray) -> Iterator[tuple[str, str]]:
    prior = prior_loss(counts)
    if prior and loss >= prior:
        yield (
            f"The loss, {formats.number(loss)}, is not below {formats.number(prior)}, that of always "
            "answering with the classes' shares.",
            "Training was too short or its steps too large; or it learned by heart and is too sure: train "
            "less, or with --config.train.label_smoothing=0.1.",
        )


def names_of(names: Sequence[str]) -> str:
    """The first of the names, and how many more there are."""
    more = f" and {len(names) - _MAX_NAMES:,} more" if len(names) > _MAX_NAMES else ""
    return ", ".join(formats.shortened(name, 40) for name in names[:_MAX_NAMES]) + more


def _of_classes(counts: np.ndarray, classes: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Of counts [classes, classes], rows by the actual and columns by the predicted class."""
    there = counts.sum(axis=1) > 0
    if not there.all():
        absent = [name for name, is_there in zip(classes, there, strict=True) if not is_there]
        yield (
            f"The split has no example of: {names_of(absent)}.",
            "Its metrics say nothing of them. A larger part of the rows (--splits of convert) may have some.",
        )
    largest, share = majority(counts)
    if there.sum() > 1 and np.trace(counts) / counts.sum() <= share:
        yield (
            f"No more answers are right than by always answering “{classes[largest]}”.",
            "The features may not tell the classes apart, or training was too short.",
        )
    never = [name for name, n in zip(classes, counts.sum(axis=0), strict=True) if not n]
    if never and there.sum() > 1:
        yield f"Never predicted: {names_of(never)}.", "Such classes may have too few examples."
