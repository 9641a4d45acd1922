"""What was found, as JSON and as the sections that the terminal and the page show."""

import dataclasses
import functools
import html
import json
import pathlib
from collections.abc import Iterator, Sequence

import numpy as np

from beam_jobs.checks import leakage
from beam_jobs.checks.anomalies import Anomaly, Policy
from beam_jobs.checks.dataset import Problem, ReadSplit, RowAddress, Verified
from beam_jobs.checks.difference import Difference
from beam_jobs.checks.leakage import Leak
from beam_jobs.sources.tfrecord import example_text
from pipeline.data.dataset.tfrecord import HEADER_BYTES

FORMAT = "penstock.verification/1"
_SHOWN = 25  # rows of a table; JSON has all


@dataclasses.dataclass(frozen=True, kw_only=True)
class Section:
    """A titled table. `good` is None where the section passes no judgement."""

    title: str
    note: str = ""
    header: tuple[str, ...] = ()
    rows: tuple[tuple[str, ...], ...] = ()
    good: bool | None = None


def to_json(
    verified: Verified,
    other: Verified | None,
    difference: Difference | None,
    leaks: Sequence[Anomaly] = (),
) -> dict:
    document = {"format": FORMAT, "dataset": _dataset_json(verified)}
    document["leaks"] = [dataclasses.asdict(leak) for leak in leaks]
    if other is not None and difference is not None:
        document["against"] = _dataset_json(other)
        document["difference"] = dataclasses.asdict(difference)
    return document


def sections(
    verified: Verified,
    other: Verified | None,
    difference: Difference | None,
    leaks: Sequence[Anomaly] = (),
) -> list[Section]:
    found = [_soundness(verified), _splits(verified), _equal_records(leaks)]
    if other is not None and difference is not None:
        found += [_soundness(other), *_changes(difference)]
    return found


def dumps(document: dict) -> str:
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"


def _dataset_json(verified: Verified) -> dict:
    return {
        "directory": str(verified.directory),
        "digest": verified.manifest.digest,
        "sound": not verified.problem_count,
        "rows": verified.rows,
        "splits": {
            name: sum(len(shard.rows) for shard in split.shards) for name, split in verified.splits.items()
        },
        "problem_count": verified.problem_count,
        "problems": [dataclasses.asdict(problem) for problem in verified.problems],
    }


def _soundness(verified: Verified) -> Section:
    count = verified.problem_count
    files = len(verified.manifest.files) + sum(len(shards) for shards in verified.manifest.splits.values())
    checked = f"{files:,} files and {verified.rows:,} rows read to the last byte"
    return Section(
        title=f"{verified.directory}: {f'{count:,} problems' if count else 'sound'}",
        note=f"{checked}: sizes, digests, checksums, counts, schema. Digest {verified.manifest.digest}",
        header=("file", "record", "offset", "raw row", "problem") if count else (),
        rows=_cut([_problem_row(problem) for problem in verified.problems], total=count),
        good=not count,
    )


def _problem_row(problem: Problem) -> tuple[str, ...]:
    number = "" if problem.record is None else f"{problem.record:,}"
    offset = "" if problem.offset is None else f"{problem.offset:,}"
    return problem.file, number, offset, problem.origin or "", problem.problem


def _splits(verified: Verified) -> Section:
    rows = tuple(
        (
            name,
            f"{sum(shard.rows for shard in shards):,}",
            f"{len(shards):,}",
            f"{_bytes(shards) / 1e6:,.1f}",
        )
        for name, shards in verified.manifest.splits.items()
    )
    return Section(title="Splits, as published", header=("split", "rows", "shards", "MB"), rows=rows)


def _equal_records(leaks: Sequence[Anomaly]) -> Section:
    return Section(
        title="Records in several splits" if leaks else "No record is in two splits",
        header=("split", "severity", "what") if leaks else (),
        rows=tuple((leak.split, leak.severity, leak.message) for leak in leaks),
        good=not leaks,
    )


def _bytes(shards: Sequence) -> int:
    return sum(shard.bytes for shard in shards)


def _changes(difference: Difference) -> Iterator[Section]:
    rows = difference.rows
    changed = "not known: records hold no row_id" if rows.changed is None else f"{rows.changed:,}"
    yield Section(
        title="Rows",
        note="By row_id."
        if rows.changed is not None
        else "By content: a changed row is one removed, one added.",
        header=("before", "after", "added", "removed", "changed"),
        rows=((f"{rows.before:,}", f"{rows.after:,}", f"{rows.added:,}", f"{rows.removed:,}", changed),),
    )
    yield Section(
        title="Moved between splits" if difference.moved else "No record moved between splits",
        header=("before", "after", "records", "for example") if difference.moved else (),
        rows=tuple((m.before, m.after, f"{m.records:,}", _examples(m.examples)) for m in difference.moved),
        good=not difference.moved,
    )
    yield Section(
        title="Leaks: records that are also in a train split" if difference.leaks else "No record leaks",
        header=("train split of", "found in", "records", "of it", "for example") if difference.leaks else (),
        rows=tuple(
            (leak.train_of, leak.split, f"{leak.records:,}", f"{leak.fraction:.2%}", _examples(leak.examples))
            for leak in difference.leaks
        ),
        good=not difference.leaks,
    )
    yield from _statistics(difference)


def _statistics(difference: Difference) -> Iterator[Section]:
    yield Section(
        title="Anomalies of the statistics" if difference.anomalies else "No anomaly of the statistics",
        header=("split", "feature", "kind", "severity", "what") if difference.anomalies else (),
        rows=tuple((a.split, a.feature, a.kind, a.severity, a.message) for a in difference.anomalies),
        good=not difference.anomalies,
    )
    drifts = [
        (d.split, d.feature, d.distance.measure, f"{d.distance.value:.4f}", f"{d.distance.chance:.4f}")
        for d in difference.drifts
    ]
    yield Section(
        title="Distance of distributions, largest first",
        note="L-infinity: largest change of a share. Jensen-Shannon: in bits. Chance: what two samples of "
        "the same data stay below.",
        header=("split", "feature", "measure", "distance", "chance"),
        rows=_cut(drifts, total=len(drifts)),
    )


def _examples(addresses: Sequence[RowAddress]) -> str:
    return ", ".join(map(str, addresses[:2]))


def _cut(rows: list[tuple[str, ...]], *, total: int) -> tuple[tuple[str, ...], ...]:
    if total <= _SHOWN:
        return tuple(rows)
    rest = (f"… and {total - _SHOWN:,} more (--json=FILE)", *("",) * (len(rows[0]) - 1))
    return (*rows[:_SHOWN], rest)


# --- Sections as text for a terminal, and as one self-contained HTML page.


_MARK = {True: "ok  ", False: "!!  ", None: "    "}
_CLASS = {True: "good", False: "bad", None: "plain"}
_STYLE = """
:root { color-scheme: light dark; --ink: #17212b; --soft: #5a6775; --line: #dfe5ea; --page: #f4f6f8;
  --card: #fff; --good: #2a7d4f; --bad: #c8402b; }
@media (prefers-color-scheme: dark) { :root { --ink: #e4eaf0; --soft: #93a1af; --line: #2c3742;
  --page: #10161c; --card: #18212a; --good: #56b987; --bad: #ef6a54; } }
body { margin: 0 auto; max-width: 1080px; padding: 16px; background: var(--page); color: var(--ink);
  font: 15px/1.5 system-ui, sans-serif; font-variant-numeric: tabular-nums; }
section { background: var(--card); border: 1px solid var(--line); border-left: 5px solid var(--line);
  border-radius: 10px; padding: 14px 22px; margin-bottom: 14px; }
section.good { border-left-color: var(--good); }
section.bad { border-left-color: var(--bad); }
h1 { font-size: 22px; overflow-wrap: anywhere; }
h2 { font-size: 17px; margin: 0 0 6px; overflow-wrap: anywhere; }
.bad h2 { color: var(--bad); }
p { margin: 4px 0 8px; color: var(--soft); font-size: 13px; overflow-wrap: anywhere; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; }
th { text-align: left; color: var(--soft); font-size: 13px; white-space: nowrap; }
th, td { padding: 4px 20px 4px 0; border-bottom: 1px solid var(--line); vertical-align: top; }
"""


def format_text(sections: Sequence[Section]) -> str:
    return "\n\n".join("\n".join(_lines(section)) for section in sections)


def format_page(title: str, sections: Sequence[Section]) -> str:
    body = "\n".join(_section(section) for section in sections)
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width">'
        f"<title>{html.escape(title)}</title><style>{_STYLE}</style></head>\n"
        f"<body><h1>{html.escape(title)}</h1>\n{body}\n</body></html>\n"
    )


def _lines(section: Section) -> list[str]:
    lines = [_MARK[section.good] + section.title]
    if section.note:
        lines.append("    " + section.note)
    table = [section.header, *section.rows] if section.header else []
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    for row in table:
        cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        lines.append("    " + "  ".join(cells).rstrip())
    return lines


def _section(section: Section) -> str:
    note = f"<p>{html.escape(section.note)}</p>" if section.note else ""
    return (
        f'<section class="{_CLASS[section.good]}"><h2>{html.escape(section.title)}</h2>{note}'
        f"{_table(section)}</section>"
    )


def _table(section: Section) -> str:
    if not section.header:
        return ""
    head = _row("th", section.header)
    body = "\n".join(_row("td", row) for row in section.rows)
    return f'<div class="scroll"><table><thead>{head}</thead>\n<tbody>{body}</tbody></table></div>'


def _row(tag: str, cells: Sequence[str]) -> str:
    return "<tr>" + "".join(f"<{tag}>{html.escape(cell)}</{tag}>" for cell in cells) + "</tr>"


# --- Records of a dataset that are in several of its splits.


def leaks(verified: Verified, policy: Policy) -> tuple[Anomaly, ...]:
    """Of each split, the rows that a split before it has too."""
    contents = {name: [functools.partial(_contents, split)] for name, split in verified.splits.items()}
    found = (
        leakage.anomaly(
            leak,
            _leak_examples(leak, verified),
            policy,
            of=len(verified.splits[leak.split].contents),
        )
        for leak in leakage.leaks(contents, records=verified.rows)
    )
    return tuple(anomaly for anomaly in found if anomaly)


def _contents(split: ReadSplit) -> np.ndarray:
    return split.contents


def _leak_examples(leak: Leak, verified: Verified) -> list[str]:
    """Addresses of rows and, of those that are records of their own, what they hold."""
    split = verified.splits[leak.split]
    addresses = _addresses(leak, split)
    if verified.manifest.layout != "rows":
        return [*map(str, addresses)]
    records = (_record(verified.directory, split, address) for address in addresses)
    return [
        f"{address} ({example_text(record, verified.schema)})"
        for address, record in zip(addresses, records, strict=True)
    ]


def _record(directory: pathlib.Path, split: ReadSplit, address: RowAddress) -> bytes:
    [known] = (shard.records for shard in split.shards if shard.path == address.shard)
    [found] = known[known["ordinal"] == address.record]
    with (directory / address.shard).open("rb") as file:
        file.seek(int(found["offset"]) + HEADER_BYTES)
        return file.read(int(found["length"]))


def _addresses(leak: Leak, split: ReadSplit) -> Sequence[RowAddress]:
    positions = np.flatnonzero(np.isin(split.contents, np.array(leak.hashes, np.uint64)))
    return [split.address(position) for position in positions[: len(leak.hashes)].tolist()]
