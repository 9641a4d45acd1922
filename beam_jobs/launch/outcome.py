"""The outcome that workers send to the launcher at the end of a job: everything but the records."""

import base64
import dataclasses
import json
from collections.abc import Mapping
from typing import Any

import apache_beam as beam

from beam_jobs.cells.text import CUT, NOTES, SHOWN_TWICE, TRUNCATED, WITH_POINT
from beam_jobs.sources import source
from beam_jobs.sources.source import Rejected, Rejection
from pipeline.base.errors import InputError

# Outputs of the workers beside their main one.
READ = "read"
REJECTED = "rejected"
LINES = "lines"
NOTED = "noted"


SUMS = ("rows", "low_bits", "high_bits")  # of a file: its rows, and both halves of their hashes

Notes = Mapping[str, Mapping[str, int]]  # rows by one of NOTES, and feature


@dataclasses.dataclass(frozen=True, kw_only=True)
class WrittenFile:
    """A file of results: it lies at `path` until it is published as `file_name`."""

    path: str
    file_name: str
    rows: int
    bytes: int
    sha256: str


@dataclasses.dataclass(frozen=True, kw_only=True)
class Outcome:
    """Counts come from the data that flowed, not from runner metrics, which may be estimates."""

    rows_read: int
    rejected: Rejected
    files: tuple[Any, ...]  # each is a WrittenFile of the job's own kind, in the order of their names
    # Accumulators of `pipeline.data.statistics` by split, as bytes; empty where a job measures nothing.
    statistics: Mapping[str, bytes]
    # Number of lines by the name of the input split, for splits that are a part of a file.
    lines: Mapping[str, int] = dataclasses.field(default_factory=dict)
    # By `note`: the number of rows that deserve a remark, and sums of `RawRows.counts`.
    noted: Mapping[str, int] = dataclasses.field(default_factory=dict)

    @property
    def notes(self) -> Notes:
        """The number of rows that deserve a remark, by feature, for each of NOTES."""
        found: dict[str, dict[str, int]] = {kind: {} for kind in NOTES}
        for key, rows in self.noted.items():
            kind, _, feature = key.partition(_OF)
            if kind in found:
                found[kind][feature] = rows
        return found

    @property
    def counts(self) -> Mapping[str, Mapping[str, int]]:
        """The sums of `RawRows.counts` by split, such as {"train": {"documents": 3, "tokens": 90}}."""
        found: dict[str, dict[str, int]] = {}
        for key, total in self.noted.items():
            name, _, split = key.partition(_OF)
            if name not in (*NOTES, *SUMS):
                found.setdefault(split, {})[name] = total
        return found

    @property
    def documents(self) -> int | None:
        """The number of documents in rows of packed text; None where rows hold none."""
        found = [counts["documents"] for counts in self.counts.values() if "documents" in counts]
        return sum(found) if found else None

    @property
    def cut(self) -> int:
        """The number of documents that are longer than their row, of which the rest is left out."""
        return sum(counts.get(CUT, 0) for counts in self.counts.values())

    @property
    def given(self) -> tuple[int, str]:
        """How many rows were given, and the word for them. Of packed text that is documents, because those
        are rejected one by one.
        """
        documents = self.documents
        return (
            (self.rows_read, "rows") if documents is None else (documents + self.rejected.rows, "documents")
        )

    @property
    def sums(self) -> Mapping[str, tuple[int, ...]]:
        """What `Prepare` sums of the rows of each file; files of the same rows have the same sums."""
        found: dict[str, list[int]] = {}
        for at, kind in enumerate(SUMS):
            for key, total in self.noted.items():
                name, _, file = key.partition(_OF)
                if name == kind:
                    found.setdefault(file, [0] * len(SUMS))[at] = total
        return {file: tuple(each) for file, each in found.items()}

    @property
    def rows_written(self) -> int:
        return sum(file.rows for file in self.files)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Outputs:
    """The ends of a job's graph. Each entry of `rejected` is one `beam.ParDo`'s share of the rows left
    out.
    """

    read: beam.PCollection[int]
    rejected: tuple[beam.PCollection[source.Rejection], ...]
    files: beam.PCollection[WrittenFile]
    statistics: beam.PCollection[tuple[str, bytes]] | None = None  # split, its accumulated statistics
    # The name of an input split that is a part of a file, and the number of its lines.
    lines: beam.PCollection[tuple[str, int]] | None = None
    # The remarks on rows, by `note`; each counts its rows.
    noted: beam.PCollection[tuple[str, int]] | None = None


_OF = " of "


def note(kind: str, feature: str) -> str:
    """Returns the key under which rows with such a remark are counted; `kind` is one of NOTES, or a name of
    `RawRows.counts` beside a split.
    """
    return f"{kind}{_OF}{feature}"


_WARNINGS = {
    SHOWN_TWICE: "have a local time that the clocks of its zone show twice, taken as the earlier one. "
    "If that is wrong, write the times with their offset from UTC.",
    TRUNCATED: "have longer lists than the schema's 'length', of which the first values are kept. "
    "To keep more, raise it, and convert again.",
    WITH_POINT: "have whole numbers that end in '.0', as programs write them where other cells are empty. "
    "Hashed, 1042.0 is another value than 1042. If the other data has no '.0', write these without it.",
}


def warnings_of(notes: Notes) -> list[str]:
    """Formats the remarks on rows as warnings; `notes` may have other keys than NOTES, too."""
    return [
        f"warning: '{feature}': {rows:,} rows {_WARNINGS[kind]}"
        for kind in NOTES
        for feature, rows in notes.get(kind, {}).items()
    ]


def cut_warnings(cut: int, *, of: int) -> list[str]:
    """A warning where documents, of so many, were cut."""
    if not cut:
        return []
    return [
        f"warning: {cut:,} of {of:,} documents are longer than a row, and cut after its last token "
        "(--packing=document). Longer rows need another --sequence_length, in infer_schema too."
    ]


# --- The outcome as JSON, not pickled: workers can write to its directory, and reading it must run no code.


_ROWS = ("listed", "doubtful")


def dumps_outcome(outcome: Outcome) -> bytes:
    """Encodes an `Outcome`; the statistics of each split, bytes from workers, become base64."""
    statistics = {split: base64.b64encode(one).decode() for split, one in outcome.statistics.items()}
    return json.dumps(vars(outcome) | {"statistics": statistics}, default=vars).encode()


def loads_outcome(data: bytes, *, file_type: type[WrittenFile], directory: str) -> Outcome:
    """Decodes what `dumps_outcome` wrote; raises InputError unless its files are in `directory`."""
    document = json.loads(data)
    outcome = Outcome(
        rows_read=document["rows_read"],
        rejected=Rejected(
            **document["rejected"]
            | {name: tuple(Rejection(**row) for row in document["rejected"][name]) for name in _ROWS}
        ),
        files=tuple(file_type(**file) for file in document["files"]),
        lines=document["lines"],
        noted=document["noted"],
        statistics={split: base64.b64decode(one) for split, one in document["statistics"].items()},
    )
    for file in outcome.files:
        _check_inside(file, directory)
    return outcome


def _check_inside(file: WrittenFile, directory: str) -> None:
    inside = directory.rstrip("/") + "/"
    paths = [path for name, path in dataclasses.asdict(file).items() if name.endswith("path")]
    is_inside = all(path.startswith(inside) and "/../" not in path for path in paths)
    if not is_inside or "/" in file.file_name:
        raise InputError(
            f"the outcome of the run, in {directory}",
            received=f"a file {file.path} to publish as {file.file_name}",
            expected="files that the workers of this run wrote",
            action="Nothing was published. Somebody else writes there: choose another directory.",
        )
