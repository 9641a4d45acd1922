"""What was found, as JSON and as sections for the terminal and the page."""

import dataclasses
import functools
import json
import pathlib
from collections.abc import Iterator, Sequence

from beam_jobs.checks import leakage
from beam_jobs.checks.anomalies import Anomaly, Policy
from beam_jobs.checks.dataset import Problem, ReadSplit, RowAddress, Verified
from beam_jobs.checks.difference import Difference
from beam_jobs.sources.tfrecord import example_text
from pipeline.data.dataset.row_hashes import Leak
from pipeline.data.dataset.tfrecord import HEADER_BYTES
from pipeline.report.section import Section, Table

FORMAT = "penstock.verification/1"
_SHOWN = 25  # rows of a table; JSON has all


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
    header = ("file", "record", "offset", "raw row", "problem")
    return Section(
        title=f"{verified.directory}: {f'{count:,} problems' if count else 'sound'}",
        parts=[
            f"{checked}: sizes, digests, checksums, counts, schema. Digest {verified.manifest.digest}",
            _table(header, [_problem_row(problem) for problem in verified.problems], total=count),
        ],
        good=not count,
    )


def _problem_row(problem: Problem) -> tuple[str, ...]:
    numbers = ("" if number is None else f"{number:,}" for number in (problem.record, problem.offset))
    return problem.file, *numbers, problem.origin or "", problem.problem


def _splits(verified: Verified) -> Section:
    rows = []
    for name, shards in verified.manifest.splits.items():
        megabytes = sum(shard.bytes for shard in shards) / 1e6
        rows.append((name, f"{sum(each.rows for each in shards):,}", f"{len(shards):,}", f"{megabytes:,.1f}"))
    return Section(title="Splits, as published", parts=[_table(("split", "rows", "shards", "MB"), rows)])


def _equal_records(leaks: Sequence[Anomaly]) -> Section:
    rows = [(leak.split, leak.severity, leak.message) for leak in leaks]
    title = "Records in several splits" if leaks else "No record is in two splits"
    return _findings(title, ("split", "severity", "what"), rows)


def _changes(difference: Difference) -> Iterator[Section]:
    rows = difference.rows
    note, changed = "By row_id.", f"{rows.changed or 0:,}"
    if rows.changed is None:
        note = "By content: a changed row is one removed, one added."
        changed = "not known: records hold no row_id"
    counts = (f"{count:,}" for count in (rows.before, rows.after, rows.added, rows.removed))
    header = ("before", "after", "added", "removed", "changed")
    yield Section(title="Rows", parts=[note, _table(header, [(*counts, changed)])])
    yield _findings(
        "Moved between splits" if difference.moved else "No record moved between splits",
        ("before", "after", "records", "for example"),
        [(m.before, m.after, f"{m.records:,}", _examples(m.examples)) for m in difference.moved],
    )
    yield _findings(
        "Leaks: records that are also in a train split" if difference.leaks else "No record leaks",
        ("train split of", "found in", "records", "of it", "for example"),
        [
            (leak.train_of, leak.split, f"{leak.records:,}", f"{leak.fraction:.2%}", _examples(leak.examples))
            for leak in difference.leaks
        ],
    )
    yield _findings(
        "Anomalies of the statistics" if difference.anomalies else "No anomaly of the statistics",
        ("split", "feature", "kind", "severity", "what"),
        [(a.split, a.feature, a.kind, a.severity, a.message) for a in difference.anomalies],
    )
    drifts = [
        (d.split, d.feature, d.distance.measure, f"{d.distance.value:.4f}", f"{d.distance.chance:.4f}")
        for d in difference.drifts
    ]
    meaning = (
        "L-infinity: largest change of a share. Jensen-Shannon: in bits. Chance: what two samples of the "
        "same data stay below."
    )
    table = _table(("split", "feature", "measure", "distance", "chance"), drifts, total=len(drifts))
    yield Section(title="Distance of distributions, largest first", parts=[meaning, table])


def _findings(title: str, header: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> Section:
    """A section that is bad if it has a row."""
    return Section(title=title, parts=[_table(header, rows)], good=not rows)


def _examples(addresses: Sequence[RowAddress]) -> str:
    return ", ".join(map(str, addresses[:2]))


def _table(header: tuple[str, ...], rows: Sequence[tuple[str, ...]], *, total: int = 0) -> Table | None:
    """The table of the first rows, with a line that says how many of `total` are not shown. None without
    rows.
    """
    more = [(f"… and {total - _SHOWN:,} more (--json=FILE)", *("",) * (len(header) - 1))]
    shown = [*rows[:_SHOWN], *more] if total > _SHOWN else rows
    return Table(header=header, rows=shown) if rows else None


# --- Records of a dataset that are in several of its splits.


def leaks(verified: Verified, policy: Policy) -> list[Anomaly]:
    """Returns, for each split, the rows that a split before it has too."""
    contents = verified.contents
    return leakage.anomalies(
        {name: [lambda hashes=hashes: hashes] for name, hashes in contents.items()},
        functools.partial(_leak_examples, verified),
        policy,
        rows={name: len(hashes) for name, hashes in contents.items()},
    )


def _leak_examples(verified: Verified, leak: Leak) -> list[str]:
    """Addresses of leaked rows, with their values where each row is a record of its own."""
    split = verified.splits[leak.split]
    positions = leak.positions(split.contents)[: len(leak.hashes)]
    addresses = [split.address(position) for position in positions]
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
