"""The data in the report: rows read, written and rejected, splits, every feature."""

import collections
import dataclasses
from collections.abc import Callable, Mapping, Sequence

from pipeline.data.dataset.manifest import in_order
from pipeline.data.dataset.statistics import FeatureStatistics, SplitStatistics
from pipeline.data.schema.feature import Feature
from pipeline.data.schema.feature_types import (
    Categorical,
    Categories,
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
from pipeline.report.html import Markup, join, tag
from pipeline.report.section import Cell, Facts, Note, Section, Table
from pipeline.training.report.inputs import ReportInputs

_MAX_REASONS = 8
_EXAMPLES_A_REASON = 3
_MAX_DAMAGED = 100  # rows of the table, at most
_RAW_CHARACTERS = 120
_MAX_OPEN = 30  # features that are shown; the rest is folded away
_NAME_CHARACTERS = 60
_MOST_VALUES = 5
_MOST_CLASSES = 10
_NUMBERS = ("smallest", "median", "largest", "mean ± std")


def dataset_section(inputs: ReportInputs) -> Section:
    """A section on counts, splits, damaged and rejected rows, and features, as far as they are known."""
    return Section(
        title="The data",
        parts=[
            *(Note(text=f"Not shown: {problem}") for problem in inputs.problems),
            *_manifest(inputs),
            *_damaged(inputs),
            *_rejections(inputs),
            *_features(inputs),
        ],
        id="data",
    )


def _manifest(inputs: ReportInputs) -> list[object]:
    manifest, conversion = inputs.manifest, inputs.conversion
    if manifest is None:
        return []
    is_grouped = bool(inputs.schema and inputs.schema.group)
    raw_bytes = sum(source.get("bytes", 0) for source in conversion.get("inputs") or ())
    given, what = inputs.given
    rejected = formats.percent(manifest.rows_rejected / max(1, given))
    facts = {
        "dataset": f"{manifest.name} {manifest.version}",
        f"{what} read": formats.count(given),
        "rows written": formats.count(manifest.rows_read - manifest.rows_rejected),
        "groups of rows": formats.count(manifest.rows_written) if is_grouped else None,
        f"{what} rejected": f"{formats.count(manifest.rows_rejected)} ({rejected})",
        "raw size": formats.size(raw_bytes) if raw_bytes else None,
        "converted in": _conversion_time(conversion),
    }
    rows = []
    for split in in_order(manifest.splits):
        shards, number = manifest.splits[split], manifest.rows(split)
        share = formats.percent(number / max(1, manifest.rows_written))
        size = formats.size(sum(shard.bytes for shard in shards))
        rows.append([split, formats.count(number), share, f"{len(shards):,}", size])
    header = ["split", "groups" if is_grouped else "rows", "share", "shards", "size"]
    splits = Table(title="Splits", header=header, rows=rows, numbers=range(1, 5))
    return [Facts(items=facts), splits]


def _conversion_time(conversion: Mapping) -> str | None:
    if "seconds" not in conversion:
        return None
    workers = conversion.get("workers")
    number = f", {workers:,} worker{'s' * (workers != 1)}" if workers else ""
    return f"{formats.duration(conversion['seconds'])} by {conversion.get('runner', 'Beam')}{number}"


def _damaged(inputs: ReportInputs) -> list[object]:
    """Lists the damaged records that the run left out."""
    records = inputs.damaged.get("records")
    if not records:
        return []
    rows = [
        [one["file"], *(formats.count(one[key]) for key in ("ordinal", "offset", "rows")), one["reason"]]
        for one in records[:_MAX_DAMAGED]
    ]
    header = ["file", "record", "byte", "rows", "what is wrong"]
    title = "Damaged records, left out"
    table = Table(title=title, header=header, rows=rows, numbers=range(1, 4))
    return [table, *_more(len(records) - _MAX_DAMAGED, "records")]


def _rejections(inputs: ReportInputs) -> list[object]:
    """The reasons why rows were rejected, the most frequent first, each with a few of the rows."""
    if inputs.manifest is None or not inputs.manifest.rows_rejected:
        return []
    examples = collections.defaultdict(list)
    for row in inputs.rejected:
        examples[str(row.get("reason"))].append(row)
    seen = {reason: len(rows) for reason, rows in examples.items()}
    reasons = inputs.conversion.get("rejected_reasons") or seen
    ordered = sorted(reasons.items(), key=lambda item: (-item[1], item[0]))
    rows = [
        [reason, formats.count(n), join(*map(_rejected_row, examples[reason][:_EXAMPLES_A_REASON]))]
        for reason, n in ordered[:_MAX_REASONS]
    ]
    _, what = inputs.given
    header = ["reason", what, "for example"]
    table = Table(title=f"Rejected {what}", header=header, rows=rows, numbers={1})
    return [table, *_more(len(ordered) - _MAX_REASONS, "reasons")]


def _more(count: int, what: str) -> list[Note]:
    return [Note(text=f"… and {count:,} more {what}.")] if count > 0 else []


def _rejected_row(row: Mapping) -> Markup:
    number = f", row {formats.count(row['row'])}" if row.get("row") is not None else ""
    column = f", column {row['column']}" if row.get("column") else ""
    raw = formats.shortened(str(row.get("raw", "")), _RAW_CHARACTERS)
    place = tag("small", f"{row.get('source')}{number}{column}")
    return tag("div", tag("code", raw) if raw else None, place, class_="example")


def _features(inputs: ReportInputs) -> list[object]:
    if not inputs.statistics:
        return []
    split = in_order(inputs.statistics)[0]
    table = feature_table(inputs.statistics[split], inputs.schema)
    table = dataclasses.replace(table, title=f"Features, in the {split} split")
    is_numeric = len(table.header) > len(_NUMBERS)
    has_lists = any(isinstance(each, Categories) or _is_multilabel(each) for each in _declared(inputs))
    return [
        table,
        Note(text="Histograms leave out far outliers.") if is_numeric else None,
        Note(text="Shares of values in lists are of all values, not of the rows.") if has_lists else None,
    ]


def _declared(inputs: ReportInputs) -> Sequence[Feature]:
    return inputs.schema.features if inputs.schema else ()


def _is_multilabel(feature: Feature) -> bool:
    return isinstance(feature, Label) and bool(feature.shape)


def feature_table(statistics: SplitStatistics, schema: Schema | None) -> Table:
    """A row for each feature: how often it is missing, its values as a small plot, its numbers.

    The label comes first; the others are in the order of the schema, which the user wrote.
    """
    declared = {feature.name: feature for feature in schema.features} if schema else {}
    order = sorted(declared, key=lambda name: not isinstance(declared[name], Label))
    rank = {name: at for at, name in enumerate(order)}
    features = sorted(statistics.features.values(), key=lambda feature: rank.get(feature.name, len(rank)))
    is_numeric = any(feature.numeric for feature in features)
    header = ["feature", "missing", "values", "different", *(_NUMBERS if is_numeric else ())]
    rows = [_row(feature, declared.get(feature.name))[: len(header)] for feature in features]
    return Table(header=header, rows=rows, numbers=range(3, 8), open_rows=_MAX_OPEN, more="features")


def _row(feature: FeatureStatistics, declared: Feature | None) -> list[object]:
    name = tag("b", formats.shortened(feature.name, _NAME_CHARACTERS))
    shown = _BY_TYPE.of(declared) if declared else _UNKNOWN
    distinct = ""
    if feature.values is not None:
        distinct = ("" if feature.values.complete else "> ") + formats.count(feature.values.distinct)
    return [
        Cell(text=name, note=_kind(feature, declared)),
        meter(feature.missing_fraction),
        _plot(feature, shown),
        distinct,
        *_numbers(feature, shown),
    ]


def _kind(feature: FeatureStatistics, declared: Feature | None) -> str:
    if declared is None:
        return feature.dtype
    shape = f" {list(declared.shape)}" if declared.shape else ""
    kind = "predicted" if isinstance(declared, Label) else declared.kind
    said = [kind] if kind != feature.name else []  # for a feature named `image`, "image image" would be silly
    return " · ".join([*said, f"{_BY_TYPE.of(declared).detail(declared)}{shape}"])


def _plot(feature: FeatureStatistics, shown: "FeatureFormat") -> object:
    if not feature.present:
        return "no value"
    if feature.numeric is not None:
        return histogram(feature.numeric.quantiles, shown.number) or "one value"
    if feature.values is not None and feature.values.values:
        # A list has several values a row.
        total = max(feature.present, sum(count for _, count in feature.values.values))
        return value_shares(feature.values.values, total, limit=shown.most_values)
    return f"{formats.size(feature.mean_length)} on average" if feature.mean_length else ""


def _numbers(feature: FeatureStatistics, shown: "FeatureFormat") -> list[str]:
    numeric = feature.numeric
    if numeric is None or not feature.present:
        return [""] * len(_NUMBERS)
    median = numeric.quantiles[len(numeric.quantiles) // 2] if numeric.quantiles else None
    spread = f"{shown.number(numeric.mean)} ± {shown.spread(numeric.std)}"
    return [*map(shown.number, (numeric.minimum, median, numeric.maximum)), spread]


@dataclasses.dataclass(frozen=True, kw_only=True)
class FeatureFormat:
    """How the report shows one feature type: `detail` is shown beside its name, and its plot has at most
    `most_values` values.

    `number` formats one of its numbers, and `spread` their standard deviation.
    """

    detail: Callable[[Feature], str]
    most_values: int = _MOST_VALUES
    number: Callable[[float | None], str] = formats.number
    spread: Callable[[float], str] = formats.number


_MICROSECONDS_A_DAY = 86_400e6


def _dtype(feature: Feature) -> str:
    return feature.dtype


def _stored_as(feature: Numeric) -> str:
    return f"{feature.dtype} less {feature.offset:.9g}" if feature.offset else feature.dtype


_UNKNOWN = FeatureFormat(detail=_dtype)
_BY_TYPE = FeatureTypeTable(
    where=__name__,
    question="how the report shows a feature",
    entry="FeatureFormat, with `detail` of the feature to a word",
    entries={
        Numeric: FeatureFormat(detail=_stored_as),
        Categorical: FeatureFormat(detail=lambda feature: feature.encoding),
        Categories: FeatureFormat(detail=lambda feature: f"{feature.encoding}, up to {feature.length}"),
        Label: FeatureFormat(detail=lambda feature: feature.task, most_values=_MOST_CLASSES),
        Image: FeatureFormat(detail=lambda feature: feature.encoding),
        Text: FeatureFormat(detail=_dtype),
        Tokens: FeatureFormat(detail=_dtype),
        Tensor: FeatureFormat(detail=_dtype),
        Datetime: FeatureFormat(
            detail=lambda feature: (
                "dates in UTC" + f"; local times: {feature.zone}" * (feature.zone != "UTC")
            ),
            number=formats.date,
            spread=lambda microseconds: f"{formats.number(microseconds / _MICROSECONDS_A_DAY)} days",
        ),
    },
)
