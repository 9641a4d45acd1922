"""How far new spans lie from what the champion was trained on."""

import dataclasses
from collections.abc import Collection, Iterator, Mapping, Sequence

from pipeline.data.dataset import statistics
from pipeline.data.dataset.manifest import STATISTICS_FILE_NAME
from pipeline.data.dataset.splits import TRAIN
from pipeline.data.dataset.statistics import FeatureStatistics
from pipeline.data.statistics.drift import Distance, distance, l_infinity
from pipeline.release.cycles.planning.champion import Served
from pipeline.release.cycles.records.root import Root
from pipeline.release.cycles.spans import datasets
from pipeline.release.cycles.spans.survey import Span


@dataclasses.dataclass(frozen=True, kw_only=True)
class Drift:
    """A feature of a span, beyond what chance explains. `value` is 0 … 1, as `measure` has it."""

    span: Span
    feature: str
    measure: str
    value: float
    where: str

    def __str__(self) -> str:
        what = f", most of all '{self.where}'" if self.where else ""
        moved = f"feature '{self.feature}' moved by {self.value:.3f}"
        return f"span {self.span.name}: {moved} ({self.measure}{what})"


def measured(
    root: Root, spans: Sequence[Span], champion: Served | None, *, ignored: Collection[str] = ()
) -> list[Drift]:
    """Of converted spans against the champion's training statistics, the farthest first.

    Args:
      ignored: features that always move, such as a date.
    """
    if champion is None:
        return []
    before = statistics.read(champion.directory / STATISTICS_FILE_NAME)[TRAIN].features
    asked = {name: feature for name, feature in before.items() if name not in ignored}
    found = [drift for span in spans if span.receipt for drift in _of_span(root, span, asked)]
    return sorted(found, key=lambda each: (-each.value, each.span.name, each.feature))


def _of_span(root: Root, span: Span, before: Mapping[str, FeatureStatistics]) -> Iterator[Drift]:
    splits = statistics.read(datasets.dataset_of(root, *span.key) / STATISTICS_FILE_NAME)
    rows = span.receipt["rows"]
    largest = TRAIN if rows.get(TRAIN) else max(rows, key=rows.get)
    for name, feature in splits[largest].features.items():
        if name not in before:
            continue
        for far in (distance(feature, before[name]), missing_distance(feature, before[name])):
            if far and far.value > far.chance:
                yield Drift(span=span, feature=name, measure=far.measure, value=far.value, where=far.where)


def missing_distance(now: FeatureStatistics, before: FeatureStatistics) -> Distance:
    """How much the part of examples without a value changed, and how much chance would change it."""
    counts = ({"": each.missing, "present": each.present} for each in (now, before))
    return dataclasses.replace(l_infinity(*counts), measure="missing", where="")
