"""The data in the report: rows read, written and rejected, splits, every feature."""

import collections
import dataclasses
from collections.abc import Callable, Mapping

from pipeline.data.dataset.manifest import in_order
from pipeline.data.dataset.statistics import FeatureStatistics, NumericSummary, SplitStatistics
from pipeline.data.schema.feature import Feature
from pipeline.data.schema.feature_types import (
    Categorical,
    Datetime,
    FeatureTypeTable,
    Image,
    Label,
    Numeric,
    Tensor,
    Text,
    Tokens,
)
from pipeline.data.schema.schema import Schema
from pipeline.report import formats
from pipeline.report.charts import histogram, meter, value_shares
from pipeline.report.html import Markup, definitions, folded, join, table, tag
from pipeline.training.report.inputs import ReportInputs

_MAX_REASONS = 8
_EXAMPLES_A_REASON = 3
_MAX_DAMAGED = 100  # rows of the table
_RAW_CHARACTERS = 120


def dataset_section(inputs: ReportInputs) -> Markup:
    """Counts, splits, damaged and rejected rows, features: what is known of them."""
    problems = [tag("p", f"Not shown: {problem}", class_="note") for problem in inputs.problems]
    return tag(
        "section",
        tag("h2", "The data"),
        *problems,
        _counts(inputs),
        _splits(inputs),
        _damaged(inputs),
        _rejections(inputs),
        _features(inputs),
        id="data",
    )


def _counts(inputs: ReportInputs) -> Markup | None:
    manifest, conversion = inputs.manifest, inputs.conversion
    if manifest is None:
        return None
    sources = conversion.get("inputs") or ()
    raw_bytes = sum(source.get("bytes", 0) for source in sources) or None
    rejected = join(
        formats.count(manifest.rows_rejected),
        f" ({formats.percent(manifest.rows_rejected / max(1, manifest.rows_read))})",
    )
    return definitions(
        {
            "dataset": f"{manifest.name} {manifest.version}",
            "rows read": formats.count(manifest.rows_read),
            "rows written": formats.count(manifest.rows_written),
            "rows rejected": rejected,
            "raw size": formats.size(raw_bytes) if raw_bytes else None,
            "converted in": _conversion_time(conversion),
        }
    )


def _conversion_time(conversion: Mapping) -> str | None:
    if "seconds" not in conversion:
        return None
    workers = conversion.get("workers")
    by = f" by {conversion.get('runner', 'Beam')}" + (
        f", {workers:,} worker{'s' * (workers != 1)}" if workers else ""
    )
    return formats.duration(conversion["seconds"]) + by


def _splits(inputs: ReportInputs) -> Markup | None:
    if inputs.manifest is None:
        return None
    total = max(1, inputs.manifest.rows_written)
    rows = []
    for split in in_order(inputs.manifest.splits):
        shards, records = inputs.manifest.splits[split], inputs.manifest.records(split)
        size = formats.size(sum(shard.bytes for shard in shards))
        rows.append(
            [split, formats.count(records), formats.percent(records / total), f"{len(shards):,}", size]
        )
    header = ["split", "rows", "share", "shards", "size"]
    return join(tag("h3", "Splits"), table(header, rows, numbers=frozenset({1, 2, 3, 4})))


def _damaged(inputs: ReportInputs) -> Markup | None:
    """The stored records that are no longer what was written, and that the run did without."""
    records = inputs.damaged.get("records")
    if not records:
        return None
    rows = [
        [one["file"], *(formats.count(one[key]) for key in ("ordinal", "offset", "rows")), one["reason"]]
        for one in records[:_MAX_DAMAGED]
    ]
    more = len(records) - _MAX_DAMAGED
    return join(
        tag("h3", "Damaged records, left out"),
        table(["file", "record", "byte", "rows", "what is wrong"], rows, numbers=frozenset({1, 2, 3})),
        tag("p", f"… and {more:,} more records.", class_="note") if more > 0 else None,
    )


def _rejections(inputs: ReportInputs) -> Markup | None:
    """Why rows were rejected, most frequent reason first, each with a few of the rows."""
    if inputs.manifest is None or not inputs.manifest.rows_rejected:
        return None
    examples = collections.defaultdict(list)
    for row in inputs.rejected:
        examples[str(row.get("reason"))].append(row)
    seen = {reason: len(rows) for reason, rows in examples.items()}
    reasons = inputs.conversion.get("rejected_reasons") or seen
    ordered = sorted(reasons.items(), key=lambda item: (-item[1], item[0]))
    rows = [
        [reason, formats.count(n), join(*map(_rejected_row, examples.get(reason, [])[:_EXAMPLES_A_REASON]))]
        for reason, n in ordered[:_MAX_REASONS]
    ]
    more = len(ordered) - _MAX_REASONS
    return join(
        tag("h3", "Rejected rows"),
        table(["reason", "rows", "for example"], rows, numbers=frozenset({1})),
        tag("p", f"… and {more:,} more reasons.", class_="note") if more > 0 else None,
    )


def _rejected_row(row: Mapping) -> Markup:
    origin = str(row.get("source"))
    if row.get("row") is not None:
        origin += f", row {formats.count(row['row'])}"
    if row.get("column"):
        origin += f", column {row['column']}"
    raw = formats.shortened(str(row.get("raw", "")), _RAW_CHARACTERS)
    return tag("div", tag("code", raw) if raw else None, tag("small", origin), class_="example")


def _features(inputs: ReportInputs) -> Markup | None:
    if not inputs.statistics:
        return None
    split = in_order(inputs.statistics)[0]
    features = feature_table(inputs.statistics[split], inputs.schema)
    return join(tag("h3", f"Features, in the {split} split"), features)


# --- A table row for every feature: how often it is missing, its values as a small plot, its numbers.


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


_OF_KIND = FeatureTypeTable(
    where=__name__,
    question="how the report shows a feature",
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
