"""Reads the rows that a schema is proposed from, and profiles their columns."""

import collections
import dataclasses
import functools
import re
import shlex
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Literal, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from beam_jobs.cells import lists, text
from beam_jobs.cells.image_formats import has_image_header
from beam_jobs.cells.text import NOT_UTF_8, Problems
from beam_jobs.cells.typed import to_text
from beam_jobs.schema.repeated import SeenRows, copy_remarks
from beam_jobs.sources import columns as columns_lib
from beam_jobs.sources.source import (
    InputSplit,
    RawRows,
    Rejection,
    Source,
    check_readable,
    format_doubts,
    takes_encoding,
)
from pipeline.data.schema.feature import Clean
from pipeline.data.schema.times import FIRST_YEAR
from pipeline.data.statistics.sentinels import are_sentinels

# --- Distinct values with their counts, in bounded memory.


# Spellings that Arrow reads as a number too; leading zeros make a code.
_NUMBER = r"^-?(0|[1-9][0-9]*)(\.[0-9]*)?([eE][+-]?[0-9]+)?$"
_WHOLE = r"^-?(0|[1-9][0-9]*)$"
_MOSTLY = 0.9  # share of the values that are numbers, in a column of numbers


class ValueCounts:
    """Counts of text values, without what a `Clean` strips from their ends.

    After `limit` different values, or `most_bytes` of them, new ones are counted together as `others`. Only
    values that may change the proposal still get a count of their own: markers of missing values and, among
    numbers, texts that are no number, the first fraction, the smallest and the largest.
    """

    def __init__(self) -> None:
        self.counts: collections.Counter[str] = collections.Counter()
        self.others = 0
        self._bytes = 0.0  # bytes of the different values, about
        self._kept: pa.Array | None = None  # the keys of `counts`, once these have reached a limit
        self._are_numbers = self._are_whole = False
        self._least = self._most = 0.0

    @property
    def total(self) -> int:
        return self.counts.total() + self.others

    def add(self, values: pa.StringArray, *, limit: int, most_bytes: int) -> None:
        """Counts the values [rows] that are not null."""
        before = len(self.counts)
        counted = pc.utf8_trim(values.drop_null(), Clean.strip).value_counts()
        if self._kept is not None:
            counted = self._without_others(counted, limit)
        distinct, counts = counted.field("values").to_pylist(), counted.field("counts").to_pylist()
        self.counts.update(dict(zip(distinct, counts, strict=True)))
        if self._kept is None:
            new = (len(self.counts) - before) / max(1, len(distinct))
            self._bytes += new * counted.field("values").nbytes
            if len(self.counts) >= limit or self._bytes >= most_bytes:
                self._keep_these()

    def _keep_these(self) -> None:
        self._kept = pa.array(self.counts, pa.string())
        numbers = [value for value in self.counts if is_number(value)]
        self._are_numbers = len(numbers) >= _MOSTLY * len(self.counts)
        if self._are_numbers:
            self._are_whole = all(map(is_whole_number, numbers))
            self._least, self._most = min(map(float, numbers)), max(map(float, numbers))

    def _without_others(self, counted: pa.StructArray, limit: int) -> pa.StructArray:
        """The values to count by themselves; the others are added up."""
        values = counted.field("values")
        keep = pc.is_in(values, value_set=self._kept)
        if len(self.counts) < 2 * limit:
            keep = pc.or_(keep, self._remarkable(values))
        self.others += pc.sum(counted.field("counts").filter(pc.invert(keep))).as_py() or 0
        return counted.filter(keep)

    def _remarkable(self, values: pa.StringArray) -> pa.BooleanArray:
        markers = pc.is_in(values, value_set=pa.array(NULL_MARKERS | IN_NUMBERS, pa.string()))
        if not self._are_numbers:
            return markers
        plain = pc.match_substring_regex(values, _NUMBER)
        fractions = pc.and_not(plain, pc.match_substring_regex(values, _WHOLE))
        new = pc.or_(pc.invert(plain), self._beyond(values, plain))
        if self._are_whole and pc.any(fractions).as_py():
            self._are_whole = False
            return pc.or_(new, fractions)
        return new

    def _beyond(self, values: pa.StringArray, plain: pa.BooleanArray) -> pa.BooleanArray:
        """Returns which values are the smallest or the largest so far."""
        numbers = pc.if_else(plain, values, pa.scalar(None, pa.string())).cast(pa.float64())
        least, most = pc.min_max(numbers).values()
        less, more = pc.less_equal(least, self._least).as_py(), pc.greater_equal(most, self._most).as_py()
        self._least = least.as_py() if less else self._least
        self._most = most.as_py() if more else self._most
        is_least = pc.and_(pc.equal(numbers, least), pa.scalar(bool(less)))
        is_most = pc.and_(pc.equal(numbers, most), pa.scalar(bool(more)))
        return pc.or_(is_least, is_most).fill_null(False)


# --- Spellings of one word, and sentinels such as -999.


_SENTINELS = frozenset(float(sign * digits) for digits in (99, 999, 9999, 99999, 999999) for sign in (1, -1))
_SPELLED = frozenset(f"{number:.{digits}f}" for number in _SENTINELS for digits in range(3))
_TIMES = 2  # a sentinel occurs this many times, at least
_OTHERS = 3  # different numbers that a sentinel is far from


def number_written(thousands: str, decimal: str) -> str:
    """A pattern of numbers with these separators; zeros in front (007) make a code."""
    whole = rf"(?:[1-9][0-9]{{0,2}}(?:{re.escape(thousands)}[0-9]{{3}})+|0|[1-9][0-9]*)"
    return rf"{whole}(?:{re.escape(decimal)}[0-9]+)?"


_INVISIBLE = dict.fromkeys(map(ord, "\u00ad\u200b\u2060\ufeff"))  # soft hyphens, blanks of no width, BOMs


def spelling_aliases(counts: Mapping[str, int]) -> dict[str, str]:
    """Maps rare spellings to the most frequent one, where only case, blanks or the coding of accents differ.

    Single letters are codes: a and A are two.
    """
    groups = collections.defaultdict(list)
    for value in sorted(counts, key=lambda value: (-counts[value], value)):
        groups[_spelling(value)].append(value)
    return {rare: group[0] for group in groups.values() for rare in group[1:]}


def _spelling(value: str) -> str:
    if value.isascii():
        words = " ".join(value.split())
    else:
        words = " ".join(unicodedata.normalize("NFC", value).translate(_INVISIBLE).split())
    return words.casefold() if len(words) > 1 else words


def sentinels(counts: Mapping[str, int]) -> tuple[str, ...]:
    """Returns the numbers that lie so far from the others that they mean "no value"."""
    found = sorted(_SPELLED & counts.keys())
    if sum(counts[value] for value in found) < _TIMES:
        return ()
    rest = [float(value) for value in counts if value not in found]
    if len(rest) < _OTHERS:
        return ()
    low, high = min(rest), max(rest)
    return tuple(value for value in found if max(low - float(value), float(value) - high) > high - low)


def far_values(numbers: Mapping[str, float], counts: Mapping[str, int]) -> tuple[str, ...]:
    """Returns the texts of `numbers` that occur several times and lie far from all others."""
    values, places = np.unique([*numbers.values()], return_inverse=True)
    rows = np.bincount(places, weights=[counts[text] for text in numbers])
    far = set(values[are_sentinels(values, rows)].tolist()) if len(values) else set()
    return tuple(text for text, number in numbers.items() if number in far)


def same_values(counts: Mapping[str, int], given: Iterable[str]) -> frozenset[str]:
    """Returns the values that equal one of those `given`; numbers may have any spelling."""
    texts = set(given)
    numbers = {float(text) for text in texts if is_number(text)}
    if not numbers:
        return frozenset(texts & counts.keys())
    alike = (value for value in counts if is_number(value) and float(value) in numbers)
    return frozenset({*(texts & counts.keys()), *alike})


# --- Profiles of raw columns.


# Spellings of "no value". A word of the second set may be a category of its own, so it counts as missing only
# among numbers.
NULL_MARKERS = frozenset({"", "?", "NA", "N/A", "n/a", "null", "NULL", "NaN", "nan", "\\N", "#N/A"})
IN_NUMBERS = frozenset(
    {
        *("None", "none", "-", "--", ".", "missing", "unknown", "Unknown"),
        *("inf", "-inf", "+inf", "Inf", "-Inf", "Infinity", "-Infinity", "NAN", "-nan", "-NaN"),
        *("1.#INF", "-1.#INF", "1.#IND", "-1.#IND", "1.#QNAN", "-1.#QNAN"),  # as Windows prints them
        *("#DIV/0!", "#NUM!", "#VALUE!", "#REF!", "#NAME?", "#NULL!"),  # as spreadsheets print them
    }
)
TELLS_APART = 0.95  # as many different values for each row: an id, of which some rows may repeat
_WRITTEN = 4  # copies of a row that a mistake may write, on average; more have another cause
_SHOWN = 40  # characters of a value that are shown
_WITH_E = re.compile("[0-9]+[eE][0-9]+")
_IMAGE_NAMES = (".avif", ".bmp", ".gif", ".jpeg", ".jpg", ".png", ".tif", ".tiff", ".webp")


@dataclasses.dataclass(frozen=True, kw_only=True)
class ColumnProfile:
    """What is known of a column. `counts` has how often each text occurs, without blanks at its ends.

    Values counted in `undecodable` and `images` are not in `counts`.

    Memory is bounded: where there are many different values, only some have a count, and the rest are
    `others`.
    """

    name: str
    counts: Mapping[str, int]
    others: int = 0  # values that are not missing and have no count of their own
    undecodable: int = 0
    images: int = 0  # values that are an image's own bytes
    lengths: Mapping[int, int] = dataclasses.field(default_factory=dict)  # rows by the size of their list
    items: Literal["whole", "numbers", "text"] = "whole"  # what lists hold
    item_counts: Mapping[str, int] = dataclasses.field(default_factory=dict)  # items of lists, like `counts`
    item_others: int = 0  # items that have no count of their own
    empty_lists: int = 0  # rows whose list has no item
    delimiter: str = ""  # what stands between the items of lists in text
    declared: tuple[str, ...] = ()  # what the user says is missing
    kept: tuple[str, ...] = ()  # what the user says is a value, although it may look like a missing one
    date_formats: tuple[str, ...] = ()  # how the user says dates are written
    first_year: int = FIRST_YEAR  # the first of the 100 years that two digits can mean

    @property
    def rows(self) -> int:
        lists = sum(n for length, n in self.lengths.items() if length) if self.holds_lists else 0
        return sum(self.counts.values()) + self.others + self.undecodable + self.images + lists

    @property
    def are_images(self) -> bool:
        """Images, or the paths of image files."""
        paths = [value.lower().endswith(_IMAGE_NAMES) for value in self.values]
        return self.images > 0 or (bool(paths) and all(paths))

    @property
    def holds_lists(self) -> bool:
        """Returns whether a row has several values, or may have them, as the user says."""
        return max(self.lengths, default=0) > 1 or bool(self.delimiter)

    @functools.cached_property
    def markers(self) -> tuple[str, ...]:
        """The values that mean "missing"."""
        found = (*self._words_for_missing, *self.sentinels, *self.declared_values)
        kept = same_values(self.counts, self.kept) - {""}
        return tuple(marker for marker in dict.fromkeys(found) if marker not in kept)

    @functools.cached_property
    def declared_values(self) -> tuple[str, ...]:
        """The values that the user says are missing, as they are spelled here."""
        return tuple(sorted(same_values(self.counts, self.declared)))

    @functools.cached_property
    def sentinels(self) -> tuple[str, ...]:
        """The numbers among `markers`, such as -999; only in a column of numbers."""
        other = {*self._words_for_missing, *self.declared_values, *same_values(self.counts, self.kept)}
        rest = {value: n for value, n in self.counts.items() if value not in other}
        return sentinels(rest) if all(map(is_number, rest)) else ()

    @functools.cached_property
    def far_values(self) -> tuple[str, ...]:
        """The numbers that repeat far from all others, and are neither among `markers` nor kept by the
        user.
        """
        kept = same_values(self.counts, self.kept)
        numbers = {value: float(value) for value in self.values} if self.numbers else {}
        return tuple(value for value in far_values(numbers, self.counts) if value not in kept)

    @functools.cached_property
    def _words_for_missing(self) -> tuple[str, ...]:
        plain = NULL_MARKERS & self.counts.keys()
        others = self.counts.keys() - plain - {*self.declared_values}
        odd = {value for value in others if not is_number(value)}
        # If a single word keeps a column from numbers, it stands for "no number". What has digits does not: a
        # code (01067), or the only amount of its kind: (61), 1,5 or 1 310.
        is_word = len(odd) == 1 and not any(map(str.isdigit, "".join(odd)))
        is_marker = odd <= IN_NUMBERS or is_word
        numbers_but_for_it = len(odd) < len(others) and is_marker and not plain & {*self.kept}
        return tuple(sorted(plain | odd if numbers_but_for_it else plain))

    @functools.cached_property
    def values(self) -> Mapping[str, int]:
        """The counts of what is not missing."""
        return {value: count for value, count in self.counts.items() if value not in self.markers}

    @property
    def distinct(self) -> int:
        """The number of different values. Where some have no count, they are taken to repeat like the
        others.
        """
        counted = sum(self.values.values())
        return round(len(self.values) * (1 + self.others / counted)) if self.others else len(self.values)

    @property
    def missing(self) -> int:
        return sum(self.counts[marker] for marker in self.markers)

    @property
    def missing_fraction(self) -> float:
        return self.missing / max(1, self.rows)

    @functools.cached_property
    def numbers(self) -> Sequence[float] | None:
        """The distinct values as numbers; None if one is no number, as `007`, or all are like `3e4`."""
        if not self.values or not all(map(is_number, self.values)):
            return None
        if len(self.with_e) == len(self.values):
            return None
        return sorted(map(float, self.values))

    @property
    def with_e(self) -> list[str]:
        """The values such as `3e4`, which are probably codes: programs that print numbers write `3e+04`."""
        return [value for value in self.values if _WITH_E.fullmatch(value)]

    @functools.cached_property
    def are_whole_numbers(self) -> bool:
        return self.numbers is not None and all(map(is_whole_number, self.values))

    @property
    def without_list(self) -> int:
        """The rows that have no list, not even one of no items."""
        return self.missing - self.empty_lists

    @property
    def words(self) -> float:
        """The average number of words in a value."""
        words = sum(len(value.split()) * count for value, count in self.values.items())
        return words / max(1, sum(self.values.values()))

    def evidence(self) -> dict[str, object]:
        """The evidence for the schema file."""
        most_frequent = sorted(self.values, key=lambda value: (-self.values[value], value))
        seen: dict[str, object] = {
            "rows": self.rows,
            "missing_fraction": round(self.missing_fraction, 6),
        }
        if self.holds_lists:
            return seen | self._evidence_of_lists()
        seen |= {"distinct": self.distinct, "examples": [value[:_SHOWN] for value in most_frequent[:5]]}
        if self.numbers:
            seen |= {"minimum": self.numbers[0], "maximum": self.numbers[-1]}
        if self.others:
            seen |= {"distinct_counted": len(self.values)}  # `distinct` is an estimate
        return seen | ({"not_utf8": self.undecodable} if self.undecodable else {})

    def _evidence_of_lists(self) -> dict[str, object]:
        lengths = {str(length): n for length, n in sorted(self.lengths.items())[:20]}
        if self.items != "text" and len(self.lengths.keys() - {0}) < 2:  # those of a tensor
            return {"lengths": lengths}
        most_frequent = sorted(self.item_counts, key=lambda item: (-self.item_counts[item], item))
        return {
            "missing_fraction": round(self.without_list / max(1, self.rows), 6),
            "distinct": len(self.item_counts),
            "examples": [item[:_SHOWN] for item in most_frequent[:5]],
            "lengths": lengths,
        }


def as_lists(profile: ColumnProfile, delimiter: str) -> ColumnProfile:
    """The profile of a column of text as that of lists: the delimiter stands between their items."""
    lengths: collections.Counter[int] = collections.Counter()
    items: collections.Counter[str] = collections.Counter()
    markers = {value for value in profile.counts if value in profile.declared or value in NULL_MARKERS}
    for value, rows in profile.counts.items():
        found = [item for each in value.split(delimiter) if (item := each.strip(Clean.strip))]
        if value and value in markers:
            continue
        lengths[len(found)] += rows
        items.update(dict.fromkeys(found, 0))
        for item in found:
            items[item] += rows
    empty = lengths.pop(0, 0)
    counts = {value: profile.counts[value] for value in markers - {""}} | ({"": empty} if empty else {})
    return dataclasses.replace(
        profile,
        counts=counts,
        lengths=lengths + collections.Counter({0: empty}),
        items="text",
        item_counts=items,
        item_others=profile.others,
        empty_lists=empty,
        delimiter=delimiter,
    )


def flags_of_values(flag: str, profile: ColumnProfile, values: Iterable[str]) -> str:
    """Returns the flags of `infer_schema` that say what each value is, quoted for the shell."""
    texts = [f"--{flag}={profile.name}={value}" for value in values]
    # A sentence may end after it, so a value with a point of its own is quoted.
    return " ".join(
        f"'{text}'" if text.endswith(".") and "'" not in text else shlex.quote(text) for text in texts
    )


def excerpt(value: str) -> str:
    """Returns the start of a value, for messages: a cell may hold megabytes."""
    return value if len(value) <= _SHOWN else f"{value[:_SHOWN]}…"


def is_number(value: str) -> bool:
    """Returns whether `convert` reads it as a number. Only 0 to 9 are digits; `float` takes others too."""
    if not value.isascii():
        return False
    try:
        number = float(value)
    except ValueError:
        return False
    return abs(number) != float("inf") and number == number and not _is_code(value) and "_" not in value


def _is_code(value: str) -> bool:
    """Returns whether a leading zero has a meaning, as in the postcode 01067."""
    return value.lstrip("+-").startswith("0") and value.lstrip("+-0")[:1].isdigit()


def is_whole_number(value: str) -> bool:
    return value.removeprefix("-").isdecimal() and value.isascii()


_MOST_CELLS = 100_000_000  # cells that are read, at most, which takes minutes
_COUNTED = 1_000_000  # different values that are counted by themselves, in all columns together: about 300 MB
_LEAST_COUNTED = 1100  # values counted in each column; beyond 1,000 a vocabulary is not listed
_COUNTED_BYTES, _LEAST_BYTES = 64 << 20, 64 << 10  # 64 MiB for all columns together, 64 KiB for each column


class Profiles(NamedTuple):
    """Profiles of the columns, what went wrong, and whether every row was looked at."""

    columns: list[ColumnProfile]
    remarks: list[str]
    are_of_all_rows: bool


def read_profiles(source: Source, input_splits: Sequence[InputSplit], *, max_rows: int) -> Profiles:
    """Profiles the first rows of each input split, `most_rows` in all."""
    columns: dict[str, _Gathered] = {}
    seen = SeenRows()
    reasons: collections.Counter[str] = collections.Counter()
    wrong_by_file: collections.Counter[str] = collections.Counter()
    doubtful: list[Rejection] = []
    names: dict[str, set[str]] = {}  # of the columns, by file
    rows, further_lines, are_all = 0, 0, True
    for input_split in input_splits:
        path, misread = input_split.paths[0], _misread(columns)
        for raw, beyond in _first_rows(
            source.read(input_split), max_rows=max_rows, input_splits=len(input_splits)
        ):
            are_all &= not beyond
            reasons.update(rejection.reason for rejection in raw.rejected)
            wrong_by_file[path] += len(raw.rejected)
            further_lines += sum(rejection.lines - 1 for rejection in raw.rejected)
            doubtful += raw.doubtful
            rows += raw.columns.num_rows
            if not raw.sparse:
                names.setdefault(path, set()).update(raw.columns.schema.names)
            width = max(1, raw.columns.num_columns)
            limit = max(_LEAST_COUNTED, _COUNTED // width)
            most_bytes = max(_LEAST_BYTES, _COUNTED_BYTES // width)
            texts = [
                columns.setdefault(name, _Gathered()).add(
                    cells, raw.undecoded, limit=limit, most_bytes=most_bytes
                )
                for name, cells in zip(raw.columns.schema.names, raw.columns.columns, strict=True)
            ]
            seen.add(texts, path)
        wrong_by_file[path] += _misread(columns) - misread
    wrong, undecodable = reasons.total(), _misread(columns)
    reasons.update({NOT_UTF_8: undecodable} if undecodable else {})
    [(worst, _)] = wrong_by_file.most_common(1)
    check_readable(
        reasons,
        rows=rows + wrong,
        path=worst,
        further_lines=further_lines,
        has_encoding=takes_encoding(source),
    )
    remarks = [f"{wrong:,} rows cannot be read (see convert); they will be rejected."] if wrong else []
    remarks += format_doubts(collections.Counter(row.reason for row in doubtful), doubtful)
    remarks += [*columns_lib.header_remarks(columns), *columns_lib.file_remarks(names)]
    profiles = [gathered.profile(name, rows) for name, gathered in columns.items()]
    remarks += [*_repeated_remarks(seen, profiles, rows), *copy_remarks(input_splits)]
    return Profiles(profiles, remarks, are_all)


def _misread(columns: Mapping[str, "_Gathered"]) -> int:
    return max((gathered.misread for gathered in columns.values()), default=0)


def _repeated_remarks(seen: SeenRows, profiles: Sequence[ColumnProfile], rows: int) -> Iterator[str]:
    """Yields a remark on equal rows if a column tells nearly all rows apart; else they are chance."""
    # If files were written twice, even such a column has half as many different values.
    least = max(TELLS_APART * (rows - seen.repeated), rows / _WRITTEN)
    telling = [each.name for each in profiles if each.distinct >= least]
    if seen.repeated and telling:
        yield seen.remark(telling[0])


class _Gathered:
    """Counts and limits of one column so far."""

    def __init__(self) -> None:
        self.rows = self.undecodable = self.images = 0
        self.misread = 0  # undecodable values that the file's reader gives as text
        self.values = ValueCounts()
        self.lengths: collections.Counter[int] = collections.Counter()
        self.items = "whole"
        self.of_items = ValueCounts()
        self.empty_lists = 0

    def add(self, cells: pa.Array, undecoded: bool, *, limit: int, most_bytes: int) -> pa.StringArray | None:
        """Counts the cells, and returns them as text; None if they are lists or images."""
        self.rows += len(cells)
        rows = len(cells)
        cells = text.plain(cells)
        if text.is_list(cells.type):
            cells = self._add_lists(cells, limit=limit, most_bytes=most_bytes)
        are_bytes = not undecoded and text.is_bytes(cells.type)
        if are_bytes:
            cells = self._add_images(cells)
        decoded = to_text(cells)
        self.undecodable += len(decoded.problems)
        self.misread += 0 if are_bytes else len(decoded.problems)
        self.values.add(decoded.values, limit=limit, most_bytes=most_bytes)
        return decoded.values if len(decoded.values) == rows and not self.lengths else None

    def _add_lists(self, cells: pa.Array, *, limit: int, most_bytes: int) -> pa.Array:
        """The single values, for lists that hold no more than one."""
        flat = lists.flat(cells)
        sizes = pc.list_value_length(flat).fill_null(0).to_numpy()
        self.lengths.update(sizes.tolist())
        self.empty_lists += int((sizes == 0).sum()) - flat.null_count
        kind = _items(flat.flatten())
        self.items = max(self.items, kind, key=("whole", "numbers", "text").index)
        if kind == "text" or (kind == "whole" and sizes.max(initial=0) <= _LONGEST_OF_IDS):
            self.of_items.add(to_text(flat.flatten()).values, limit=limit, most_bytes=most_bytes)
        return lists.single(flat, Problems()) if sizes.max(initial=0) <= 1 else pa.array([], pa.string())

    def _add_images(self, cells: pa.Array) -> pa.Array:
        are_images = [value is not None and has_image_header(value) for value in cells.to_pylist()]
        self.images += sum(are_images)
        return cells.filter(pa.array(np.invert(np.array(are_images, bool))))

    def profile(self, name: str, rows: int) -> ColumnProfile:
        """The profile over `rows` rows in all. Rows that do not name this column have no value there."""
        counts = self.values.counts
        seen = self.values.total + self.undecodable + self.images
        in_lists = max(self.lengths, default=0) > 1
        missing = rows - self.rows + self.lengths[0] if in_lists else rows - seen
        if missing:
            counts[""] = counts[""] + missing if not in_lists else missing
        return ColumnProfile(
            name=name,
            counts=counts,
            others=self.values.others,
            undecodable=self.undecodable,
            images=self.images,
            lengths=self.lengths,
            items=self.items,
            item_counts=self.of_items.counts,
            item_others=self.of_items.others,
            empty_lists=self.empty_lists,
        )


_LONGEST_OF_IDS = 256  # whole numbers in a list up to which they may be ids; more are a tensor


def _items(values: pa.Array) -> str:
    if pa.types.is_integer(values.type) or pa.types.is_null(values.type):
        return "whole"
    return "numbers" if text.is_number(values.type) else "text"


def most_rows(columns: int, max_rows: int) -> int:
    """The number of rows to look at: `max_rows`, or fewer if the table is wide."""
    return min(max_rows, max(1, _MOST_CELLS // max(1, columns)))


def _first_rows(
    batches: Iterable[RawRows], *, max_rows: int, input_splits: int
) -> Iterator[tuple[RawRows, int]]:
    """The batches of an input split up to its share of the rows; each with how many rows were cut off."""
    seen = 0
    for raw in batches:
        left = -(-most_rows(raw.columns.num_columns, max_rows) // input_splits) - seen
        beyond = max(0, raw.columns.num_rows - left)
        yield dataclasses.replace(raw, columns=raw.columns[:left]), beyond
        if beyond:
            return
        seen += raw.columns.num_rows
