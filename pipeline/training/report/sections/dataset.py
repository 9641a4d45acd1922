"""The data in the report: rows read, written and rejected, splits, every feature."""

import collections
from collections.abc import Mapping

from pipeline.data.dataset.splits import in_order
from pipeline.training.report.drawing import formats
from pipeline.training.report.drawing.markup import Markup, definitions, join, table, tag
from pipeline.training.report.sections.feature_table import feature_table
from pipeline.training.report.sections.inputs import ReportInputs

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
