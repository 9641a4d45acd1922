"""Turns one column of raw cells into typed values, and tells which rows do not conform to the schema.

Everything is done to whole columns; single rows are looked at only where a whole column did not convert.
"""

import dataclasses
from collections.abc import Callable, Iterable, Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from beam_jobs.clean import clean
from pipeline.data.features import Categorical, Feature, Image, Label, Numeric, Tensor, Text, Tokens

FLOAT32_MAXIMUM = float(np.finfo(np.float32).max)
_SEPARATORS = r"[\s,;]+"  # between the numbers of a tensor


@dataclasses.dataclass(frozen=True, kw_only=True)
class Column:
    """`values` is null where the value is missing; `problems` says why the row at a position is bad."""

    values: pa.Array
    problems: Mapping[int, str]


class _Problems(dict[int, str]):
    """The first problem found with each row."""

    def add(self, rows: Iterable[int] | pa.BooleanArray, reason: str) -> None:
        if isinstance(rows, pa.BooleanArray):
            rows = np.flatnonzero(rows.fill_null(False).to_numpy(zero_copy_only=False)).tolist()
        for row in rows:
            self.setdefault(row, reason)


def arrow_type(feature: Feature) -> pa.DataType:
    """How parsed values of `feature` are held: float32 as float64, because statistics are taken of these."""
    scalar = {"float32": pa.float64(), "int64": pa.int64(), "string": pa.string()}[feature.dtype]
    return pa.list_(scalar, int(np.prod(feature.shape))) if feature.shape else scalar


def parse(feature: Feature, cells: pa.Array) -> Column:
    """Parses `cells` (binary or string, no nulls) into values of `arrow_type(feature)`."""
    decoded = to_text(cells)
    problems, text = _Problems(decoded.problems), decoded.values
    if not isinstance(feature, Image):
        text = clean(text, feature.clean)
    if feature.missing == "reject":
        problems.add(text.is_null(), "missing")
    values = _PARSERS[type(feature)](feature, text, problems)
    return Column(values=values, problems=problems)


def to_text(cells: pa.Array) -> Column:
    """Decodes UTF-8; what is none becomes null and a problem."""
    problems = _Problems()
    return Column(values=_convert(cells, pa.string(), "not UTF-8", problems), problems=problems)


def _text(feature: Feature, text: pa.Array, problems: _Problems) -> pa.Array:
    return text


def _numeric(feature: Numeric, text: pa.Array, problems: _Problems) -> pa.Array:
    values = _number(feature, text, problems)
    if feature.minimum is not None:
        problems.add(pc.less(values, feature.minimum), f"below the minimum of {feature.minimum}")
    if feature.maximum is not None:
        problems.add(pc.greater(values, feature.maximum), f"above the maximum of {feature.maximum}")
    return values


def _number(feature: Feature, text: pa.Array, problems: _Problems) -> pa.Array:
    if feature.dtype == "int64":
        # Arrow reads 0x1F as 31, which nothing else in the pipeline does.
        problems.add(pc.match_substring(text, "x", ignore_case=True), "not a whole number")
        return _convert(text, pa.int64(), "not a whole number", problems)
    values = _convert(text, pa.float64(), "not a number", problems)
    problems.add(pc.invert(pc.is_finite(values)), "not a finite number")
    problems.add(pc.greater(pc.abs(values), FLOAT32_MAXIMUM), "too large for float32")
    return values


def _categorical(feature: Categorical, text: pa.Array, problems: _Problems) -> pa.Array:
    if feature.encoding == "integer":
        values = _number(feature, text, problems)
        if feature.unknown == "reject":
            outside = pc.or_(pc.less(values, 0), pc.greater_equal(values, feature.size))
            problems.add(outside, f"not in 0 … {feature.size - 1}")
        return values
    if feature.unknown == "reject":
        known = pc.is_in(text, value_set=pa.array(feature.vocabulary, pa.string()))
        problems.add(pc.and_(text.is_valid(), pc.invert(known)), "not in the vocabulary")
    return text


def _label(feature: Label, text: pa.Array, problems: _Problems) -> pa.Array:
    if feature.task == "regression":
        return _number(feature, text, problems)
    index = pc.index_in(text, value_set=pa.array(feature.classes, pa.string()), skip_nulls=True)
    problems.add(pc.and_(text.is_valid(), index.is_null()), "not one of the classes")
    return index.cast(pa.int64())


def _list(feature: Tokens | Tensor, text: pa.Array, problems: _Problems) -> pa.Array:
    size = int(np.prod(feature.shape))
    items = pc.split_pattern_regex(text, _SEPARATORS)
    lengths = pc.list_value_length(items)
    problems.add(pc.not_equal(lengths, size), f"not {size} numbers")
    # Rows of another length stand as zeros until they are left out, so that the list is of fixed size.
    right = pc.equal(lengths, size).fill_null(False)
    zeros = pa.array([["0"] * size], items.type)
    items = pa.concat_arrays([items, zeros]).take(
        pc.if_else(right, pa.array(np.arange(len(text))), pa.scalar(len(text)))
    )
    item_problems = _Problems()
    numbers = _number(feature, items.flatten(), item_problems)
    if isinstance(feature, Tokens):
        outside = pc.or_(pc.less(numbers, 0), pc.greater_equal(numbers, feature.vocabulary_size))
        item_problems.add(outside, f"not in 0 … {feature.vocabulary_size - 1}")
    for item, reason in item_problems.items():
        problems.add([item // size], reason)
    return pa.FixedSizeListArray.from_arrays(numbers, size)


_PARSERS: Mapping[type[Feature], Callable[[Feature, pa.Array, _Problems], pa.Array]] = {
    Numeric: _numeric,
    Categorical: _categorical,
    Label: _label,
    Image: _text,
    Text: _text,
    Tokens: _list,
    Tensor: _list,
}


def _convert(values: pa.Array, to: pa.DataType, reason: str, problems: _Problems) -> pa.Array:
    """Casts `values`; what does not convert becomes null and a problem."""
    wrong = _unconvertible(values, to, first=0)
    if wrong:
        problems.add(wrong, reason)
        keep = np.ones(len(values), bool)
        keep[wrong] = False
        values = pc.if_else(pa.array(keep), values, pa.scalar(None, values.type))
    return values.cast(to)


def _unconvertible(values: pa.Array, to: pa.DataType, *, first: int) -> list[int]:
    """Positions that Arrow cannot cast, found by halving: k bad ones of n cost k·log(n) casts."""
    try:
        values.cast(to)
    except pa.ArrowInvalid:
        if len(values) == 1:
            return [first]
        half = len(values) // 2
        left = _unconvertible(values[:half], to, first=first)
        return left + _unconvertible(values[half:], to, first=first + half)
    return []
