"""The text of a cell of any type. It identifies rows, names categories, and is cleaned up.

Equal values have equal text whatever format they came from: 7, 7.0 and "7" are all `7`. Floats are written
in their shortest form that reads back as the same number; NaN is no value.
"""

import json
import re
from collections.abc import Iterable, Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipeline.data.schema import times
from pipeline.data.schema.feature import Clean, Feature

_BETWEEN_ITEMS = b" "


def is_text(kind: pa.DataType) -> bool:
    """Returns whether cells of this type are text already, decoded or not."""
    is_string = pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind)
    return is_string or is_bytes(kind)


def is_bytes(kind: pa.DataType) -> bool:
    """Returns whether cells of this type are bytes, which may be text that is not decoded."""
    return (
        pa.types.is_binary(kind)
        or pa.types.is_large_binary(kind)
        or pa.types.is_fixed_size_binary(kind)
        or pa.types.is_binary_view(kind)
    )


def is_list(kind: pa.DataType) -> bool:
    """Returns whether cells of this type are lists."""
    return pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind)


def is_number(kind: pa.DataType) -> bool:
    """Returns whether cells of this type are numbers; booleans are 0 and 1."""
    return (
        pa.types.is_integer(kind)
        or pa.types.is_floating(kind)
        or pa.types.is_decimal(kind)
        or pa.types.is_boolean(kind)
    )


def plain(cells: pa.Array) -> pa.Array:
    """The same cells [rows] without a dictionary, NaN as null."""
    if pa.types.is_dictionary(cells.type):
        cells = cells.dictionary_decode()
    if pa.types.is_floating(cells.type):
        # Arrow compares no float16.
        cells = cells.cast(pa.float32()) if pa.types.is_float16(cells.type) else cells
        cells = pc.if_else(pc.is_nan(cells), pa.scalar(None, cells.type), cells)
    return cells


def to_bytes(cells: pa.Array) -> pa.Array:
    """Text of `cells` [rows] as binary, null where they are null. Text of bytes need not be UTF-8."""
    cells = plain(cells)
    kind = cells.type
    if is_text(kind):
        return cells.cast(pa.binary())
    if is_number(kind) or pa.types.is_temporal(kind) or pa.types.is_null(kind):
        return cells.cast(pa.string()).cast(pa.binary())
    if is_list(kind) and _is_joinable(kind.value_type):
        return _joined(cells)
    # Lists of lists, lists of structs and maps are rare enough to convert one by one.
    return pa.array([_dumped(value) for value in cells.to_pylist()], pa.binary())


def _is_joinable(item: pa.DataType) -> bool:
    # Empty lists have items of type null, unless others are beside them.
    return is_number(item) or is_text(item) or pa.types.is_null(item)


def _joined(cells: pa.Array) -> pa.Array:
    lists = cells.cast(pa.large_list(cells.type.value_type))
    items = to_bytes(lists.flatten()).fill_null(b"null")
    lengths = pc.list_value_length(lists).fill_null(0).to_numpy()
    offsets = pa.array(np.concatenate([[0], np.cumsum(lengths)]), pa.int64())
    joined = pc.binary_join(pa.LargeListArray.from_arrays(offsets, items), _BETWEEN_ITEMS)
    return pc.if_else(cells.is_valid(), joined, pa.scalar(None, joined.type))


def _dumped(value: object) -> bytes | None:
    if value is None:
        return None
    return json.dumps(value, sort_keys=True, ensure_ascii=False, default=str).encode()


# --- Clean-up of whole columns.
#
# `pipeline/data/preprocessing/requests.py` does the same to raw strings when a model serves.


def clean_text(text: pa.StringArray, rules: Clean) -> pa.StringArray:
    """Cleaned text [rows] of `text` [rows]; null where the value is missing."""
    if rules.strip:
        text = pc.utf8_trim(text, characters=rules.strip)
    if rules.null_markers:
        missing = pc.is_in(text, value_set=pa.array(rules.null_markers, pa.string()))
        text = pc.if_else(missing, pa.scalar(None, pa.string()), text)
    if rules.aliases:
        spelling = pc.index_in(text, value_set=pa.array(rules.aliases.keys(), pa.string()))
        text = pc.coalesce(pa.array(rules.aliases.values(), pa.string()).take(spelling), text)
    for part in rules.remove:
        text = pc.replace_substring(text, pattern=part, replacement="")
    if rules.decimal != ".":
        text = pc.replace_substring(text, pattern=rules.decimal, replacement=".")
    return text


# --- Rows of a column that do not convert.


NOT_UTF_8 = "not UTF-8"
MISSING = "missing"
MISPLACED = "a mark that is removed does not part thousands"

# Remarks on rows that are kept: a local time that clocks show twice, a list that is too long, an id that
# ends in ".0".
SHOWN_TWICE, TRUNCATED, WITH_POINT = NOTES = ("shown_twice", "truncated", "with_point")
CUT = "cut"  # documents that are longer than the row that each has for itself


class Problems(dict[int, str]):
    """The first problem of each row.

    `notes` has rows that conform and still deserve a remark, by its kind, one of `NOTES`.
    """

    def __init__(self, problems: Mapping[int, str] | None = None) -> None:
        super().__init__(problems or {})
        self.notes: dict[str, set[int]] = {}

    def note(self, kind: str, rows: Iterable[int]) -> None:
        """Notes that these rows, by position, deserve a remark; `kind` is one of NOTES."""
        self.notes.setdefault(kind, set()).update(rows)

    def add(self, rows: Iterable[int] | pa.BooleanArray, reason: str) -> None:
        """Gives these rows a problem; `rows` are positions, or a bool [rows]."""
        if isinstance(rows, pa.BooleanArray):
            rows = np.flatnonzero(rows.fill_null(False).to_numpy(zero_copy_only=False)).tolist()
        for row in rows:
            self.setdefault(row, reason)


def decode(cells: pa.Array, problems: Problems) -> pa.StringArray:
    """Text [rows] of `cells` [rows]; what is not UTF-8 becomes null and a problem."""
    return convert(to_bytes(cells), pa.string(), NOT_UTF_8, problems)


def convert(values: pa.Array, to: pa.DataType, reason: str, problems: Problems) -> pa.Array:
    """Casts `values` [rows] to the type `to`; what does not convert becomes null and a problem."""
    try:
        return values.cast(to)
    except pa.ArrowInvalid:
        wrong = _unconvertible(values, to, first=0)
    problems.add(wrong, reason)
    keep = np.ones(len(values), bool)
    keep[wrong] = False
    return pc.if_else(pa.array(keep), values, pa.scalar(None, values.type)).cast(to)


def _unconvertible(values: pa.Array, to: pa.DataType, *, first: int) -> list[int]:
    """Positions that Arrow cannot cast, found by halving: k bad values among n cost k·log(n) casts."""
    try:
        values.cast(to)
    except pa.ArrowInvalid:
        if len(values) == 1:
            return [first]
        half = len(values) // 2
        left = _unconvertible(values[:half], to, first=first)
        return left + _unconvertible(values[half:], to, first=first + half)
    return []


# --- Cells that are text, numbers or points in time → numbers.


NO_SUCH_TIME = "no such date or time"
_UNITS = {"s": times.SECOND, "ms": 1000, "us": 1, "ns": 0}  # microseconds; nanoseconds always fit
_DIGITS = re.compile("-?[0-9]+")  # a plus sign is not read
_FLOAT32_MAXIMUM = float(np.finfo(np.float32).max)


def number(feature: Feature, cells: pa.Array, problems: Problems) -> pa.Array:
    """Numbers [rows] of `cells` [rows]: int64, or float64 for a float32 feature; null where there is none."""
    if is_moment(cells.type):
        cells = _seconds(cells, problems)
    if feature.dtype == "int64":
        if pa.types.is_string(cells.type):
            # Arrow reads 0x1F as 31; nothing else in the pipeline does.
            problems.add(pc.match_substring(cells, "x", ignore_case=True), "not a whole number")
        return _whole(cells, problems)
    if pa.types.is_string(cells.type):
        values = convert(cells, pa.float64(), "not a number", problems)
    else:
        values = cells.cast(pa.float64(), safe=False)  # whole numbers from 2**53 on are rounded
    problems.add(pc.invert(pc.is_finite(values)), "not a finite number")
    problems.add(pc.greater(pc.abs(values), _FLOAT32_MAXIMUM), "too large for float32")
    return values


def is_moment(kind: pa.DataType) -> bool:
    """Returns whether cells of this type are dates or timestamps."""
    return pa.types.is_timestamp(kind) or pa.types.is_date(kind)


def microseconds(cells: pa.Array, problems: Problems) -> pa.Int64Array:
    """Microseconds since 1970-01-01 of dates or timestamps [rows]; what 64 bits cannot hold is a problem.

    Arrow's cast would give another date for it, without an error.
    """
    unit = {"date32[day]": times.DAY, "date64[ms]": 1000}.get(str(cells.type)) or _UNITS[cells.type.unit]
    counts = cells.cast(pa.int32()).cast(pa.int64()) if unit == times.DAY else cells.cast(pa.int64())
    if unit > 1:
        most = (1 << 63) // unit - 1
        fits = pc.and_(pc.greater(counts, -most), pc.less(counts, most))
        problems.add(pc.invert(fits), NO_SUCH_TIME)
        cells = pc.if_else(fits, cells, pa.scalar(None, cells.type))
    zone = getattr(cells.type, "tz", None)
    return cells.cast(pa.timestamp("us", zone), safe=False).cast(pa.int64())


def _seconds(cells: pa.Array, problems: Problems) -> pa.DoubleArray:
    return pc.divide(microseconds(cells, problems).cast(pa.float64(), safe=False), 1e6)


def _whole(cells: pa.Array, problems: Problems) -> pa.Int64Array:
    wrong = Problems()
    values = convert(cells, pa.int64(), "not a whole number", wrong)
    for row, reason in wrong.items():
        is_whole = _DIGITS.fullmatch(str(cells[row].as_py()))
        problems.setdefault(row, "a whole number beyond int64" if is_whole else reason)
    return values
