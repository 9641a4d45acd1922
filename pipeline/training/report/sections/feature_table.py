"""A table row for every feature: how often it is missing, its values as a small plot, its numbers."""

import dataclasses
from collections.abc import Callable, Mapping

from pipeline.data.dataset.statistics import FeatureStatistics, NumericSummary, SplitStatistics
from pipeline.data.schema.datetime_kind import Datetime
from pipeline.data.schema.feature import Feature
from pipeline.data.schema.kind_table import KindTable
from pipeline.data.schema.kinds import Categorical, Image, Label, Numeric, Tensor, Text, Tokens
from pipeline.data.schema.schema import Schema
from pipeline.training.report.drawing import formats
from pipeline.training.report.drawing.distributions import histogram, meter, value_shares
from pipeline.training.report.drawing.markup import Markup, folded, join, table, tag

_MAX_OPEN = 30  # features; the rest is folded away
NAME_CHARACTERS = 60
_VALUES_SHOWN = 5
_CLASSES_SHOWN = 10
_NUMBERS = ("smallest", "median", "largest", "mean ± std")


def feature_table(statistics: SplitStatistics, schema: Schema | None) -> Markup:
    """The label first, then the order of the schema, which the user wrote."""
    declared = {feature.name: feature for feature in schema.features} if schema else {}
    features = _label_first(statistics, declared)
    numeric = any(feature.numeric for feature in features)
    header = ["feature", "missing", "values", "different", *(_NUMBERS if numeric else ())]
    rows = [_row(feature, declared.get(feature.name))[: len(header)] for feature in features]
    right = frozenset(range(3, len(header)))
    rest = rows[_MAX_OPEN:]
    return join(
        table(header, rows[:_MAX_OPEN], numbers=right),
        folded(f"{len(rest):,} more features", table(header, rest, numbers=right)) if rest else None,
        tag("p", "Histograms leave out far outliers.", class_="note") if numeric else None,
    )


def _label_first(statistics: SplitStatistics, declared: Mapping[str, Feature]) -> list[FeatureStatistics]:
    order = sorted(declared, key=lambda name: not isinstance(declared[name], Label))
    rank = {name: i for i, name in enumerate(order)}
    return sorted(statistics.features.values(), key=lambda feature: rank.get(feature.name, len(rank)))


def _row(feature: FeatureStatistics, declared: Feature | None) -> list[object]:
    name = join(
        tag("b", formats.shortened(feature.name, NAME_CHARACTERS)), tag("small", _kind(feature, declared))
    )
    plot = _plot(feature, _OF_KIND.of(declared).values_shown if declared else _VALUES_SHOWN)
    return [name, meter(feature.missing_fraction), plot, _distinct(feature), *_numbers(feature)]


def _kind(feature: FeatureStatistics, declared: Feature | None) -> str:
    if declared is None:
        return feature.dtype
    what = _OF_KIND.of(declared).detail(declared)
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
        return [""] * len(_NUMBERS)
    median = numeric.quantiles[len(numeric.quantiles) // 2] if numeric.quantiles else None
    values = (numeric.minimum, median, numeric.maximum)
    spread = f"{formats.number(numeric.mean)} ± {formats.number(numeric.std)}"
    return [*map(formats.number, values), spread]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Shown:
    """How the report shows one kind: `detail` is said beside its name, `values_shown` are in its plot."""

    detail: Callable[[Feature], str]
    values_shown: int = _VALUES_SHOWN


def _dtype(feature: Feature) -> str:
    return feature.dtype


def _stored_as(feature: Numeric) -> str:
    return f"{feature.dtype} less {feature.offset:.9g}" if feature.offset else feature.dtype


_OF_KIND = KindTable(
    where=__name__,
    tells="how the report shows a feature",
    entry="Shown, with `detail` of the feature to a word",
    entries={
        Numeric: Shown(detail=_stored_as),
        Categorical: Shown(detail=lambda feature: feature.encoding),
        Label: Shown(detail=lambda feature: feature.task, values_shown=_CLASSES_SHOWN),
        Image: Shown(detail=lambda feature: feature.encoding),
        Text: Shown(detail=_dtype),
        Tokens: Shown(detail=_dtype),
        Tensor: Shown(detail=_dtype),
        Datetime: Shown(detail=lambda feature: f"microseconds since 1970 · {feature.zone}"),
    },
)
