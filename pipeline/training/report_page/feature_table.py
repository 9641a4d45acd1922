"""A table row for every feature: how often it is missing, its values as a small plot, its numbers."""

from collections.abc import Mapping

from pipeline.data.feature import Feature
from pipeline.data.schema import Schema
from pipeline.data.statistics import FeatureStatistics, NumericSummary, SplitStatistics
from pipeline.training.report_page import formats
from pipeline.training.report_page.distributions import histogram, meter, value_shares
from pipeline.training.report_page.markup import Markup, folded, join, table, tag

MAX_OPEN = 30  # features; the rest is folded away
NAME_CHARACTERS = 60
VALUES_SHOWN = 5
CLASSES_SHOWN = 10
NUMBERS = ("smallest", "median", "largest", "mean ± std")


def feature_table(statistics: SplitStatistics, schema: Schema | None) -> Markup:
    """The label first, then the order of the schema, which the user wrote."""
    declared = {feature.name: feature for feature in schema.features} if schema else {}
    features = _label_first(statistics, declared)
    numeric = any(feature.numeric for feature in features)
    header = ["feature", "missing", "values", "different", *(NUMBERS if numeric else ())]
    rows = [_row(feature, declared.get(feature.name))[: len(header)] for feature in features]
    right = frozenset(range(3, len(header)))
    rest = rows[MAX_OPEN:]
    return join(
        table(header, rows[:MAX_OPEN], numbers=right),
        folded(f"{len(rest):,} more features", table(header, rest, numbers=right)) if rest else None,
        tag("p", "Histograms leave out far outliers.", class_="note") if numeric else None,
    )


def _label_first(statistics: SplitStatistics, declared: Mapping[str, Feature]) -> list[FeatureStatistics]:
    order = sorted(declared, key=lambda name: declared[name].kind != "label")
    place = {name: i for i, name in enumerate(order)}
    return sorted(statistics.features.values(), key=lambda feature: place.get(feature.name, len(place)))


def _row(feature: FeatureStatistics, declared: Feature | None) -> list[object]:
    name = join(
        tag("b", formats.shortened(feature.name, NAME_CHARACTERS)), tag("small", _kind(feature, declared))
    )
    plot = _plot(feature, CLASSES_SHOWN if declared and declared.kind == "label" else VALUES_SHOWN)
    return [name, meter(feature.missing_fraction), plot, _distinct(feature), *_numbers(feature)]


def _kind(feature: FeatureStatistics, declared: Feature | None) -> str:
    if declared is None:
        return feature.dtype
    what = getattr(declared, "task", None) or getattr(declared, "encoding", None) or declared.dtype
    shape = f" {list(declared.shape)}" if declared.shape else ""
    return f"{declared.kind} · {what}{shape}"


def _plot(feature: FeatureStatistics, shown: int) -> object:
    if not feature.present:
        return "no value"
    if feature.numeric is not None:
        return histogram(feature.numeric.quantiles) or "one value"
    if feature.values is not None and feature.values.values:
        return value_shares(feature.values.values, feature.present, limit=shown)
    return f"{formats.size(feature.mean_length)} on average" if feature.mean_length else ""


def _distinct(feature: FeatureStatistics) -> str:
    if feature.values is None:
        return ""
    return ("" if feature.values.complete else "> ") + formats.count(feature.values.distinct)


def _numbers(feature: FeatureStatistics) -> list[str]:
    numeric: NumericSummary | None = feature.numeric
    if numeric is None or not feature.present:
        return [""] * len(NUMBERS)
    median = numeric.quantiles[len(numeric.quantiles) // 2] if numeric.quantiles else None
    values = (numeric.minimum, median, numeric.maximum)
    spread = f"{formats.number(numeric.mean)} ± {formats.number(numeric.std)}"
    return [*map(formats.number, values), spread]
