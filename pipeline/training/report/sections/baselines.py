"""What answers without looking at the features would score on the same split: a model should be better."""

from collections.abc import Mapping, Sequence

import numpy as np

from pipeline.training.report.drawing import formats
from pipeline.training.report.drawing.markup import Markup, tag
from pipeline.training.report.sections.inputs import as_float


def majority(counts: np.ndarray) -> tuple[int, float]:
    """The most frequent class and the accuracy of a model that always answers it.

    Args:
      counts: [classes, classes], rows by the actual and columns by the predicted class.
    """
    largest = int(counts.sum(axis=1).argmax())
    return largest, float(counts[largest].sum() / max(1, counts.sum()))


def prior_loss(counts: np.ndarray) -> float:
    """The cross-entropy, in nats, of always answering with the classes' shares of the split: their entropy.

    No answer that is the same for all examples costs less (T. Cover and J. Thomas, "Elements of Information
    Theory", 2006, theorem 2.6.3).

    Args:
      counts: [classes, classes], rows by the actual class.
    """
    shares = counts.sum(axis=1) / max(1, counts.sum())
    there = shares[shares > 0]
    return float(-(there * np.log(there)).sum())


def mean_rmse(evaluation: Mapping) -> float:
    """The RMSE of always answering the mean label: their spread. NaN where the evaluation does not tell it.

    R² = 1 − mse / variance, so variance = mse / (1 − R²).
    """
    rmse, unexplained = as_float(evaluation.get("rmse")), 1.0 - as_float(evaluation.get("r2"))
    return rmse / np.sqrt(unexplained) if rmse > 0 and unexplained > 0 else np.nan


def baseline(evaluation: Mapping, counts: np.ndarray, classes: Sequence[str]) -> Markup | None:
    """A sentence of how many answers are right, or how far off, beside those without features."""
    if counts.size:
        return _of_classes(as_float(evaluation.get("loss")), counts, classes)
    spread = mean_rmse(evaluation)
    if np.isnan(spread):
        return None
    rmse = tag("b", formats.number(as_float(evaluation["rmse"])))
    return tag("p", "RMSE ", rmse, f". Always answering the mean would have {formats.number(spread)}.")


def _of_classes(loss: float, counts: np.ndarray, classes: Sequence[str]) -> Markup:
    largest, share = majority(counts)
    right, total = int(np.trace(counts)), int(counts.sum())
    guess = f"Always answering “{classes[largest]}” would get {formats.percent(share)} right."
    parts = [tag("b", f"{right:,}"), f" of {total:,} right. ", guess]
    if not np.isnan(loss):
        prior = f", always answering with the classes' shares {formats.number(prior_loss(counts))}."
        parts += [" The loss is ", tag("b", formats.number(loss)), prior]
    return tag("p", *parts)
