"""What was found, as JSON and as the sections that the terminal and the page show."""

import dataclasses
import json
from collections.abc import Iterator, Sequence

from beam_jobs.validation.anomalies import Anomaly
from beam_jobs.verification.dataset import RowAddress, Verified
from beam_jobs.verification.difference import Difference
from beam_jobs.verification.files import Problem

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
