"""The result of a conversion: as text, as JSON, and as the file that is kept beside the dataset."""

import dataclasses
import importlib.metadata
import platform
from collections.abc import Iterator, Mapping, Sequence

from beam_jobs.cells.text import CUT
from beam_jobs.checks.anomalies import Anomaly, line
from beam_jobs.conversion.plan import Plan
from beam_jobs.launch.outcome import Notes, Outcome, cut_warnings, warnings_of
from beam_jobs.launch.run import Run
from pipeline.data.dataset.manifest import Manifest
from pipeline.report import terminal

_PACKAGES = ("apache-beam", "numpy", "pyarrow", "pillow", "tensorflow-datasets")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Published:
    """A dataset that was published, and what the user should know about it."""

    manifest: Manifest
    rejected_reasons: Mapping[str, int]
    anomalies: Sequence[Anomaly]
    notes_of_rows: Notes  # rows that deserve a remark, by the remark and the feature
    # What rows of packed text hold, by split: documents, tokens, and places for tokens.
    texts: Mapping[str, Mapping[str, int]] = dataclasses.field(default_factory=dict)
    fractions: Mapping[str, float] = dataclasses.field(default_factory=dict)  # what was asked, by split
    are_groups: bool = False  # whether a record is a group of rows
    notes: Sequence[str] = ()
    were_leaks_counted: bool = True  # whether rows that two splits share were looked for


def conversion(command: str, run: Run, plan: Plan, outcome: Outcome) -> dict[str, object]:
    """What differs from run to run, and so is not in the manifest. The training report shows it."""
    given, what = outcome.given
    return {
        "command": command,
        "started": run.started.isoformat(timespec="seconds"),
        "runner": run.runner,
        "workers": run.workers,
        "seconds": round(run.seconds, 3),
        "versions": {"python": platform.python_version(), **_versions()},
        "inputs": _inputs(plan),
        f"{what}_read": given,
        f"{what}_rejected": outcome.rejected.rows,
        "rejected_reasons": outcome.rejected.reasons,
        **outcome.notes,
        **({"texts": outcome.counts} if outcome.counts else {}),
        "splits": {split: float(fraction) for split, fraction in plan.fractions.items()},
    }


def to_json(published: Published, directory: str, *, seconds: float) -> dict[str, object]:
    """What `convert --json` writes, and `text` prints."""
    manifest = published.manifest
    return {
        "directory": directory,
        "digest": manifest.digest,
        "rows_read": manifest.rows_read,
        "rows_written": manifest.rows_read - manifest.rows_rejected,
        **({"groups": manifest.rows_written} if published.are_groups else {}),
        "rows_rejected": manifest.rows_rejected,
        "rejected_reasons": dict(published.rejected_reasons),
        "splits": {
            split: {
                "rows": manifest.rows(split),
                "records": manifest.records(split),
                "shards": len(shards),
                "bytes": sum(shard.bytes for shard in shards),
                **published.texts.get(split, {}),
            }
            for split, shards in manifest.splits.items()
        },
        "anomalies": [dataclasses.asdict(anomaly) for anomaly in published.anomalies],
        **published.notes_of_rows,
        "notes": [*published.notes, *_other_shares(published), *_leaks_unknown(published, directory)],
        "seconds": round(seconds, 3),
    }


def text(summary: Mapping) -> str:
    """The summary as a small table."""
    texts = ("documents", "tokens", "padding") if _is_of_texts(summary) else ()
    rows = [
        (split, f"{part['rows']:,}", *_of_texts(part), f"{part['shards']:,}", f"{part['bytes'] / 1e6:,.1f}")
        for split, part in summary["splits"].items()
    ]
    seconds, read = summary["seconds"], summary["rows_read"]
    what = "groups" if "groups" in summary else "rows"
    in_groups = f" in {summary['groups']:,} groups" if "groups" in summary else ""
    rejected = "".join(f"\n  {count:,} × {reason}" for reason, count in summary["rejected_reasons"].items())
    return "\n".join(
        [
            *terminal.aligned(
                [("split", what, *texts, "shards", "MB"), *rows], numbers=range(1, 4 + len(texts))
            ),
            f"{_counts(summary)}{in_groups}, {summary['rows_rejected']:,} rejected{rejected}",
            *(line(Anomaly(**anomaly)) for anomaly in summary["anomalies"]),
            *warnings_of(summary),
            *_cut(summary),
            *summary.get("notes", ()),
            *_without_rows(summary),
            f"{seconds:.1f} s, {read / seconds:,.0f} rows/s",
            f"digest {summary['digest']}",
            f"dataset {summary['directory']}",
        ]
    )


def _counts(summary: Mapping) -> str:
    """Formats what was read and written: of texts documents, because those are rejected one by one."""
    written = f"{summary['rows_written']:,}"
    if not _is_of_texts(summary):
        return f"{summary['rows_read']:,} rows read, {written} written"
    documents = sum(part["documents"] for part in summary["splits"].values() if "documents" in part)
    return f"{documents + summary['rows_rejected']:,} documents read, {documents:,} written in {written} rows"


def _cut(summary: Mapping) -> list[str]:
    parts = [part for part in summary["splits"].values() if CUT in part]
    return cut_warnings(sum(part[CUT] for part in parts), of=sum(part["documents"] for part in parts))


def _is_of_texts(summary: Mapping) -> bool:
    return any("tokens" in part for part in summary["splits"].values())


def _of_texts(part: Mapping) -> tuple[str, ...]:
    """Documents, tokens and the share of padding of a split; empty where rows are no texts."""
    if "tokens" not in part:
        return ()
    padding = 1 - part["tokens"] / part["places"] if part["places"] else 0.0
    return f"{part['documents']:,}", f"{part['tokens']:,}", f"{padding:.1%}"


def _other_shares(published: Published) -> Iterator[str]:
    """Yields a line for each split that got another share than was asked, by more than a third of it."""
    by_split = {split: published.manifest.rows(split) for split in published.fractions}
    total = sum(by_split.values())
    for split, asked in published.fractions.items():
        found = by_split[split] / total if total else asked
        if by_split[split] and abs(found - asked) > asked / 3:
            yield (
                f"split '{split}' has {found:.1%} of the rows, where {asked:.1%} were asked for: "
                f"{_counted(published, split)}. Few rows, or few groups of rows that stay together, "
                f"divide unevenly: give the split an input of its own, --input={split}=PATH, or take more "
                "data."
            )


def _leaks_unknown(published: Published, directory: str) -> Iterator[str]:
    """Yields where leaks are counted that the conversion did not look for."""
    if not published.were_leaks_counted:
        of_texts = " It compares whole rows of tokens, not documents." if published.texts else ""
        yield (
            "leakage was not looked for, as --layout=blocks keeps no hash of a row: `python -m "
            f"beam_jobs.verify {directory}` counts the rows that two splits share.{of_texts}"
        )


def _counted(published: Published, split: str) -> str:
    """Formats the number of documents, groups or rows of a split, out of all."""
    if published.texts:
        numbers = {name: published.texts.get(name, {}).get("documents", 0) for name in published.fractions}
        what = "documents"
    else:
        numbers = {name: published.manifest.rows(name) for name in published.fractions}
        what = "groups" if published.are_groups else "rows"
    return f"{numbers[split]:,} of {sum(numbers.values()):,} {what}"


def _without_rows(summary: Mapping) -> Iterator[str]:
    """Yields a warning for each split without rows, or a single one where there are none at all."""
    if not summary["rows_written"]:
        rejected = summary["rows_rejected"]
        yield f"warning: the dataset has no rows{f': all {rejected:,} were rejected' if rejected else ''}."
        return
    yield from (_no_rows(split) for split, part in summary["splits"].items() if not part["rows"])


def _no_rows(split: str) -> str:
    return (
        f"warning: split '{split}' has no rows. Few rows may all fall to the other splits; of packed texts, "
        "64 rows stay together. Give it an input of its own, "
        f"--input={split}=PATH, or set --splits."
    )


def _inputs(plan: Plan) -> list[dict[str, object]]:
    """Bytes by directory and split, not by file: an image dataset has a file for each row."""
    sizes: dict[tuple[str, str], int] = {}
    for input_split in plan.input_splits:
        where = (input_split.input_root or input_split.paths[0], input_split.split)
        sizes[where] = sizes.get(where, 0) + input_split.bytes
    return [{"path": path, "split": split, "bytes": size} for (path, split), size in sizes.items()]


def _versions() -> dict[str, str]:
    return {package: importlib.metadata.version(package) for package in _PACKAGES}
