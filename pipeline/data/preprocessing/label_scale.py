"""Where the labels of a regression lie, and how far they spread: the measure of whether numbers differ."""

import dataclasses

from pipeline.data.dataset.statistics import SplitStatistics
from pipeline.data.schema.kinds import Label


@dataclasses.dataclass(frozen=True, kw_only=True)
class LabelScale:
    """Mean and standard deviation of the labels that are trained on, in the label's unit.

    The logits of a classification have no unit: 1 is much for them, whatever the labels are.
    """

    mean: float = 0.0
    spread: float = 1.0  # above 0


def label_scale(label: Label, statistics: SplitStatistics) -> LabelScale:
    """That of a label; `statistics` are those of the train split."""
    measured = statistics.features[label.name].numeric if label.name in statistics.features else None
    if label.task != "regression" or measured is None:
        return LabelScale()
    # Equal labels spread as far as they are from 0.
    return LabelScale(mean=measured.mean, spread=measured.std or abs(measured.mean) or 1.0)
