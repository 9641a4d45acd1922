"""A source lists input splits on the launcher, and reads each as columns on a worker.

An *input* is what the user names. An *input split* is what one worker reads at once. *Raw rows* are what
reading gives: columns, and where each row came from.
"""

import collections
import dataclasses
import heapq
import json
import math
import pathlib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Protocol

import apache_beam as beam
import numpy as np
import pyarrow as pa

from beam_jobs.cells.text import MISPLACED, MISSING, NOT_UTF_8
from pipeline.base.errors import InputError, naming_shortages, printable
from pipeline.data.origins.files import Origin, place

# --- Rows that cannot be converted.


EXCERPT_BYTES = 256  # bytes or characters of the offending text that are kept
LISTED_LIMIT = 100_000  # rows that are listed; more are only counted, so that memory is bounded
NO_LABEL = "no label"
_SHOWN_DOUBTS = 100  # doubtful rows of a run that are listed


@dataclasses.dataclass(frozen=True, kw_only=True)
class Rejection:
    """A row left out, or in doubt. `row` is its number, as `Origin` counts; None where a file is one row."""

    source: str
    row: int | None
    column: str | None = None  # None: the whole row
    reason: str
    raw: str = ""
    lines: int = 1  # lines of the file that the row takes
    is_kept: bool = False  # the row was read, though it looks wrong: it is reported, and not counted

    @property
    def order(self) -> tuple:
        return self.source, self.row or 0, self.column or "", self.reason, self.raw


@dataclasses.dataclass(frozen=True, kw_only=True)
class Rejected:
    """All rejected rows of a run: exact counts by reason, and the first `LISTED_LIMIT` by origin."""

    reasons: dict[str, int]
    listed: tuple[Rejection, ...]
    further_lines: int = 0  # lines beyond the first of rows that take several
    # Number of doubtful rows, which were read, by reason.
    doubts: dict[str, int] = dataclasses.field(default_factory=dict)
    doubtful: tuple[Rejection, ...] = ()  # the first of the doubtful rows

    @property
    def rows(self) -> int:
        return sum(self.reasons.values())

    @property
    def unlabelled(self) -> int:
        """Rows that have nothing to predict; they are otherwise sound as far as they were read."""
        return self.reasons.get(NO_LABEL, 0)


NO_REJECTIONS = Rejected(reasons={}, listed=())


def excerpt(raw: object) -> str:
    """Returns `raw` for a message: bytes that are not UTF-8 are escaped, and 256 characters are kept."""
    if isinstance(raw, bytes):
        raw = raw[:EXCERPT_BYTES].decode("utf-8", "backslashreplace")
    return "" if raw is None else str(raw)[:EXCERPT_BYTES]


@dataclasses.dataclass(eq=False)
class _Collected:
    reasons: collections.Counter[str] = dataclasses.field(default_factory=collections.Counter)
    listed: list[Rejection] = dataclasses.field(default_factory=list)
    further_lines: int = 0


class CollectRejected(beam.CombineFn):
    """Rejection* → Rejected; the result does not depend on the order of merging."""

    def create_accumulator(self) -> tuple[_Collected, _Collected]:
        return _Collected(), _Collected()  # the rows left out, and the doubtful ones

    def add_input(self, accumulator: tuple[_Collected, _Collected], rejection: Rejection) -> tuple:
        collected = accumulator[rejection.is_kept]
        collected.reasons[rejection.reason] += 1
        # A row without a label is a row like others: it has not swallowed any.
        collected.further_lines += rejection.lines - 1 if rejection.reason != NO_LABEL else 0
        collected.listed.append(rejection)
        # Cutting at twice the limit makes the sorting cost per row constant.
        if len(collected.listed) >= 2 * LISTED_LIMIT:
            collected.listed = _first(collected.listed)
        return accumulator

    def merge_accumulators(self, accumulators: Iterable[tuple[_Collected, _Collected]]) -> tuple:
        merged = self.create_accumulator()
        for accumulator in accumulators:
            for whole, part in zip(merged, accumulator, strict=True):
                whole.reasons.update(part.reasons)
                whole.further_lines += part.further_lines
                whole.listed = _first([*whole.listed, *part.listed])
        return merged

    def extract_output(self, accumulator: tuple[_Collected, _Collected]) -> Rejected:
        left_out, doubtful = accumulator
        return Rejected(
            reasons=dict(sorted(left_out.reasons.items())),
            listed=tuple(_first(left_out.listed)),
            further_lines=left_out.further_lines,
            doubts=dict(sorted(doubtful.reasons.items())),
            doubtful=tuple(_first(doubtful.listed)[:_SHOWN_DOUBTS]),
        )


def save_rejections(rejected: Rejected, path: pathlib.Path) -> None:
    """Writes JSON Lines, one rejected row a line, ordered by origin."""
    lines = (json.dumps(_document(row), ensure_ascii=False) for row in rejected.listed)
    path.parent.mkdir(exist_ok=True)
    # A file's name need not be UTF-8: other bytes become escapes of JSON.
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8", errors="backslashreplace")


def _document(row: Rejection) -> dict[str, object]:
    document = {name: getattr(row, name) for name in ("source", "row", "column", "reason", "raw")}
    return document | ({"lines": row.lines} if row.lines > 1 else {})


def check_rejection_limit(
    rejected: Rejected,
    *,
    rows_read: int,
    limit: float,
    unlabelled_limit: float = 0.0,
    examples: int = 5,
    what: str = "rows",
    has_encoding: bool = False,
) -> None:
    """Raises InputError, with counts and examples, if more than `limit` of the rows were rejected; `what` is
    the word for them, and `has_encoding` is that of their source.

    A row of several lines counts once for each line: it may have swallowed other rows. Rows without a label
    do not count, as long as they are at most `unlabelled_limit` of the rows.
    """
    are_allowed = _is_within(rejected.unlabelled, rows_read, unlabelled_limit)
    others = _labelled(rejected) if are_allowed else rejected
    further = rejected.further_lines
    if _is_within(others.rows + further, rows_read + further, limit):
        return
    if others.unlabelled == others.rows:
        raise _too_few_labels(others, rows_read=rows_read, limit=max(limit, unlabelled_limit))
    found_rows, rejected = rejected.rows, others
    wrong = rejected.rows - rejected.unlabelled
    of_lines = f", which count as {rejected.rows + further:,}" if further else ""
    by_lines = "; a row counts once for each line that it takes, without a label once" if further else ""
    reasons = ", ".join(f"{count:,} × {reason}" for reason, count in rejected.reasons.items())
    cause = likely_cause(rejected.reasons, rows=wrong if further else rows_read, has_encoding=has_encoding)
    first = "; ".join(map(_format, _first_of_each(rejected.listed)[:examples]))
    flag = f"--max_rejected_fraction={share_needed(wrong + further, rows_read + further):g}"
    if rejected.unlabelled:
        flag += f" --max_unlabelled_fraction={share_needed(rejected.unlabelled, rows_read):g}"
    raise InputError(
        "rows that cannot be converted",
        received=f"{rejected.rows:,} of {rows_read:,} {what}{of_lines} ({reasons})",
        expected=f"at most a fraction of {limit:g} of them (--max_rejected_fraction){by_lines}",
        action=f"Nothing was published, and no row would be left. {_why_all(rejected)}{cause}The first of "
        f"them: {first}"
        if found_rows >= rows_read
        else "Nothing was published. Correct the data or the schema, or allow for such rows to be left "
        f"out with {flag}. {cause}"
        f"The first of them: {first}",
    )


# What the commonest reason means where no row is good, by a part of it.
_WHY_ALL = {
    MISPLACED: "Likely numbers have another decimal mark than the schema's: write them alike, or "
    "correct 'remove' and 'decimal' under 'clean' in the schema.",
    "no such file": "Likely paths start from another folder (--path_root=FOLDER), or have \\ in place of "
    "/ between folders.",
    "not a date as": "Likely dates are written in another form than the schema's 'format': write them so, or "
    "correct the schema (infer_schema --date_format=COLUMN=FORMAT).",
    "number": "Likely numbers are written in another form, such as with a decimal comma ('decimal' under "
    "'clean' in the schema), or the column holds something else.",
    "not one of the classes": "Likely the label's values are written in another form: correct 'classes', or "
    "'aliases' under 'clean', in the schema.",
    "not in the vocabulary": "Likely the values are written in another form: correct 'vocabulary', or "
    "'aliases' under 'clean', in the schema.",
    MISSING: "Likely the column is not filled in these files: a feature whose 'missing' is 'mark' or "
    "'default' may lack its value.",
    NO_LABEL: "Likely these are rows to predict for: predict needs no label.",
}


def _why_all(rejected: Rejected) -> str:
    """Returns the commonest reason, where it applies, and what it likely means, as sentences."""
    reason = max(rejected.reasons, key=rejected.reasons.__getitem__)
    columns = collections.Counter(row.column for row in rejected.listed if row.reason == reason)
    column = next((f" in column '{name}'" for name, _ in columns.most_common(1) if name), "")
    why = next((f"{why} " for words, why in _WHY_ALL.items() if words in reason), "")
    return f"The commonest reason: {reason}{column}. {why}"


def _first_of_each(listed: Sequence[Rejection]) -> list[Rejection]:
    """Returns the rows, those first that are the first with their reason."""
    first = {row.reason: row for row in reversed(listed)}
    return sorted(listed, key=lambda row: first[row.reason] is not row)


def _labelled(rejected: Rejected) -> Rejected:
    """Returns `rejected` without the rows that have no label."""
    return dataclasses.replace(
        rejected,
        reasons={reason: rows for reason, rows in rejected.reasons.items() if reason != NO_LABEL},
        listed=tuple(row for row in rejected.listed if row.reason != NO_LABEL),
    )


def _is_within(rows: int, of: int, limit: float) -> bool:
    """Whether `rows` are at most a fraction of `limit`: 29 of 100 are 0.29, but 0.29 * 100 is 28.999…96."""
    return rows <= limit * of + 1e-6


def share_needed(rows: int, of: int) -> float:
    """The fraction, rounded up to a thousandth, so that it is enough as a limit."""
    return math.ceil(1000 * rows / of) / 1000


def _too_few_labels(rejected: Rejected, *, rows_read: int, limit: float) -> InputError:
    share = share_needed(rejected.rows, rows_read)
    return InputError(
        "rows without a label",
        received=f"{rejected.rows:,} of {rows_read:,} rows",
        expected=f"at most a fraction of {limit:g} of them (--max_unlabelled_fraction)",
        action=f"Nothing was published. To leave them out: --max_unlabelled_fraction={share:g}. The first of "
        f"them: {'; '.join(map(_format, rejected.listed[:3]))}",
    )


def format_doubts(doubts: Mapping[str, int], doubtful: Sequence[Rejection]) -> Iterator[str]:
    """Formats a line for each reason to doubt rows that were read, with the first such row."""
    for reason, count in doubts.items():
        first = next((row for row in doubtful if row.reason == reason), None)
        if first:
            yield (
                f"{first.source} line {first.row:,}: {reason} ({count:,} such rows). "
                f"{_DOUBTS.get(reason, '')}{f'It begins {_quoted(first.raw)}.' if first.raw else ''}".strip()
            )


def _format(row: Rejection) -> str:
    origin = row.source if row.row is None else f"{row.source} row {row.row:,}"
    column = f", column '{row.column}'" if row.column else ""
    raw = f": {_quoted(row.raw)}" if row.raw else ""
    return f"{origin}{column}: {row.reason}{raw}"


def _quoted(raw: str) -> str:
    r"""Returns the start of a raw value in quotes. A byte that is not UTF-8 reads `\xfc`, as `excerpt` wrote
    it; `repr` would double the backslash.
    """
    return f"'{printable(raw[:60])}'"


def _first(listed: list[Rejection]) -> list[Rejection]:
    return heapq.nsmallest(LISTED_LIMIT, listed, key=lambda rejection: rejection.order)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Input:
    """One --input: where the files are, and the split that they are pinned to."""

    location: str  # a file, a directory or a glob
    split: str = ""  # empty: rows are split by fractions
    may_be_empty: bool = False  # files without a byte are read as files without a row


@dataclasses.dataclass(frozen=True, kw_only=True)
class InputSplit:
    """A unit of work that one worker reads at once."""

    paths: tuple[str, ...]
    root: str  # the common directory of all inputs; origins are relative to it
    bytes: int
    split: str = ""
    input_root: str = ""  # the directory that this input named
    start: int = 0  # bytes of the (one) file that are read: [start, end)
    end: int | None = None  # None: to its end
    # Stamps of `paths`, where they are files: `files.check_unchanged` compares them.
    stamps: tuple[int, ...] = ()
    line_ends: str = ""  # the ends of lines, where rows are numbered by lines: see `origins.files.Entry`
    called: str = ""  # its name in origins, where that is not the path
    first_file: int = 0  # number of its first file among those of all input splits

    @property
    def file_names(self) -> list[str]:
        """The names of its files in origins."""
        return [self.called] if self.called else [path.removeprefix(self.root) for path in self.paths]

    @property
    def name(self) -> str:
        """The first file, and the place in it from which rows are counted."""
        source = self.called or self.paths[0].removeprefix(self.root)
        return f"{source} from byte {self.start}" if self.start else source


def numbered(input_splits: Iterable[InputSplit]) -> Iterator[InputSplit]:
    """Yields `input_splits`, each with the number of its first file."""
    first = 0
    for input_split in input_splits:
        yield dataclasses.replace(input_split, first_file=first)
        first += len(input_split.paths)


@dataclasses.dataclass(frozen=True, kw_only=True)
class RawRows:
    """Rows of one input split, column by column.

    `columns` has the types of the format: text formats give `binary` or `string`, typed formats any Arrow
    type; null is a missing value. A column inside a struct is named by its path, `address.zip`. Row i came
    from `sources[i]` (or from `sources`, where all rows come from one file); its number there is
    `numbers[i]`, as `Origin` counts (None where a file is one row). Rows that cannot be cut into columns are
    `rejected` only.
    """

    columns: pa.RecordBatch
    sources: str | Sequence[str]
    numbers: np.ndarray | None = None  # int64 [rows]
    # The int64 [rows] index of each row's path in the input split; None: the first path.
    files: np.ndarray | None = None
    # Lines of the input split so far, where rows are numbered from its start, not from the file's.
    lines: int = 0
    ids: pa.Array | None = None  # [rows], what identifies each row; None: the cells that the schema reads do
    groups: pa.Array | None = None  # [rows]; a group goes to one split; None: each row is its own group
    rejected: tuple[Rejection, ...] = ()
    doubtful: tuple[Rejection, ...] = ()  # rows among `columns` that look wrong
    spans: Mapping[int, int] = dataclasses.field(default_factory=dict)  # row number → lines, if several
    # What each row holds of a text, int64 [rows] by name, such as tokens; the summary has their sums.
    counts: Mapping[str, np.ndarray] = dataclasses.field(default_factory=dict)
    sparse: bool = False  # rows name their columns: a column that no row names is missing in all rows
    undecoded: bool = False  # binary cells are text, not an image's own bytes
    directory: str = ""  # the directory from which relative paths in cells start
    path_roots: tuple[str, ...] = ()  # directories into which other paths in cells may lead
    are_paths_listed: bool = False  # paths in cells name files that the source itself listed

    @property
    def rows_read(self) -> int:
        return self.columns.num_rows + len(self.rejected)

    def reported(self, rejected: Iterable[Rejection]) -> Iterator[Rejection]:
        """Yields the rows that cannot be read, the `rejected` rows of `columns`, and the doubtful rows."""
        yield from self.rejected
        for row in rejected:
            yield dataclasses.replace(row, lines=self.spans[row.row]) if row.row in self.spans else row
        yield from self.doubtful

    def column(self, name: str) -> pa.Array:
        """The cells of a column, [rows]."""
        if self.sparse and name not in self.columns.schema.names:
            return pa.nulls(self.columns.num_rows, pa.string())
        return self.columns.column(name)

    def without_first(self, rows: int) -> "RawRows":
        """Leaves out the first `rows` rows. All rows must come from one file."""
        numbers = None if self.numbers is None else self.numbers[rows:]
        doubtful = tuple(row for row in self.doubtful if numbers is not None and row.row in numbers)
        return dataclasses.replace(self, columns=self.columns[rows:], numbers=numbers, doubtful=doubtful)

    def places(self, input_split: InputSplit) -> np.ndarray:
        """Returns numbers of file and row, uint64 [rows], as `pipeline/data/origins` packs them."""
        numbers = np.zeros(self.columns.num_rows, np.int64) if self.numbers is None else self.numbers
        return place(input_split.first_file + (0 if self.files is None else self.files), numbers)

    def origin(self, row: int) -> Origin:
        """Returns the origin of the row at position `row` of this batch."""
        source = self.sources if isinstance(self.sources, str) else self.sources[row]
        return Origin(file=source, row=None if self.numbers is None else int(self.numbers[row]))


class Source(Protocol):
    """A raw format with its options. Instances are pickled to the workers."""

    def input_splits(self, inputs: Iterable[Input]) -> list[InputSplit]:
        """Lists the files (on the launcher); raises InputError where an input matches none."""

    def read(self, input_split: InputSplit) -> Iterator[RawRows]:
        """Reads one input split (on a worker); raises InputError where the file as a whole is unusable."""


def read_split(source: Source, input_split: InputSplit) -> Iterator[RawRows]:
    """Reads as `Source.read` does; raises TryAgainError where the machine is at fault and not the file."""
    with naming_shortages(f"input {input_split.name}"):
        yield from source.read(input_split)


# --- Likely causes where many rows cannot be read: usually a wrong flag.


MOST_WRONG = 0.05  # share of the rows; if more are rejected, a flag is the likely cause
# A byte of a name that is not UTF-8, as Python's "backslashreplace" writes it.
_BYTE = re.compile(r"\\x[89a-f][0-9a-f]")
_OTHER_ENCODING = "Likely the file has another encoding (--encoding, such as latin-1)."
_BETWEEN_CELLS = re.compile(r"[,;\t|]")
_OTHER_DELIMITER = "Likely another character is between the cells (--delimiter)."
TEXT_BEHIND = "text behind a closing quote"
ESCAPED = "text behind a closing quote that follows a backslash"
UNCLOSED = "a quote that is not closed"
SEVERAL_ROWS = "a quoted cell holds line ends, and its lines have as many delimiters as the header"
_DOUBTS = {SEVERAL_ROWS: "If each of its lines is a row, and quotes are text, give --quote=none. "}
_CELLS = re.compile("([0-9]+) cells in place of ([0-9]+)")
_TOO_FEW = " too few"
# Causes by a part of the rejection's reason.
_CAUSES = {
    _TOO_FEW: "Likely rows end before their last cells, where these are empty. To add them: python3 -c "
    '\'import csv, sys; rows = list(csv.reader(sys.stdin, delimiter=",")); '
    'csv.writer(sys.stdout, delimiter=",", lineterminator="\\n").writerows('
    'row + [""] * (len(rows[0]) - len(row)) for row in rows)\' < FILE > NEW.csv',
    ESCAPED: "Likely a backslash stands before quotes within cells: give --escape='\\'.",
    TEXT_BEHIND: "Likely quotes are a part of the text: give --quote=none.",
    UNCLOSED: "Likely quotes are a part of the text: give --quote=none.",
    " twice)": "To keep the last value of each key: python3 -c 'import json, sys; [print(json.dumps("
    "json.loads(line))) for line in sys.stdin if line.strip()]' < FILE > NEW.jsonl",
    " cells in place of ": "Likely another character is between the cells (--delimiter), quotes are text "
    "(--quote=none) or are not closed, the first row is no header (--header=no), or --column_names names too "
    "few or too many.",
    NOT_UTF_8: "Likely the file has another encoding: make it UTF-8 with "
    "`iconv -f latin1 -t utf-8 FILE > NEW`.",
    "not a JSON object": "Likely the file is one JSON array (jq -c '.[]' FILE makes lines of it), objects on "
    "more than one line (jq -c . FILE), lines that end in commas (sed 's/,[[:space:]]*$//' FILE), another "
    "format (--format), or in another encoding than UTF-8.",
}


_CAUSES_WITH_ENCODING = _CAUSES | {NOT_UTF_8: _OTHER_ENCODING}


def takes_encoding(source: Source) -> bool:
    """Returns whether --encoding tells `source`, or the one it makes tokens of, how its text is written."""
    return hasattr(getattr(source, "source", source), "encoding")


def likely_cause(reasons: Mapping[str, int], *, rows: int, has_encoding: bool = False) -> str:
    """Returns a sentence and a blank where more than 5% of `rows` were rejected for `reasons`, else ""."""
    sizes = [(int(found[1]), int(found[2])) for found in map(_CELLS.fullmatch, reasons) if found]
    if sizes and all(1 < cells < names for cells, names in sizes):
        reasons = {f"{reason}{_TOO_FEW}": count for reason, count in reasons.items()}
    for words, cause in (_CAUSES_WITH_ENCODING if has_encoding else _CAUSES).items():
        if sum(count for reason, count in reasons.items() if words in reason) > MOST_WRONG * rows:
            return f"{cause} "
    return ""


def cause_of_names(names: Iterable[str], *, otherwise: str) -> str:
    """Returns what to do about columns that the schema does not have: a flag to set, or `otherwise`."""
    names = list(names)
    if any(map(_BYTE.search, names)):
        return _OTHER_ENCODING
    return _OTHER_DELIMITER if len(names) == 1 and _BETWEEN_CELLS.search(names[0]) else otherwise


def check_readable(
    reasons: Mapping[str, int], *, rows: int, path: str, further_lines: int = 0, has_encoding: bool = False
) -> None:
    """Raises InputError if more than 5% of `rows` cannot be read; `reasons` counts these by reason.

    A row of several lines counts once for each line; `further_lines` is the number of lines beyond the first.
    """
    wrong, all_lines = sum(reasons.values()) + further_lines, rows + further_lines
    if wrong <= MOST_WRONG * all_lines:
        return
    cause = likely_cause(reasons, rows=0 if further_lines else rows, has_encoding=has_encoding)
    counted = ", ".join(
        f"{reasons[reason]:,} × {reason}" for reason in sorted(reasons, key=reasons.get)[:-4:-1]
    )
    raise InputError(
        f"input {path}",
        received=f"{wrong:,} of {all_lines:,} {'lines' if further_lines else 'rows'} that cannot be read "
        f"({counted})",
        expected=f"at most {MOST_WRONG:.0%} of them",
        action=cause.strip() or "Correct the file.",
    )
