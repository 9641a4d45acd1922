"""Turns one column of raw cells into typed values, and tells which rows do not conform to the schema.

Everything is done to whole columns; single rows are looked at only where a whole column did not convert.
"""

import dataclasses
from collections.abc import Callable, Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from beam_jobs.cells import text as cell_text
from beam_jobs.cells.images import ARROW_TYPE, image
from beam_jobs.cells.lists import fixed_list, single
from beam_jobs.cells.numbers import number
from beam_jobs.cells.problems import Problems, decode
from beam_jobs.clean import clean
from pipeline.data.feature import Clean, Feature
from pipeline.data.features import Categorical, Image, Label, Numeric, Tensor, Text, Tokens


@dataclasses.dataclass(frozen=True, kw_only=True)
class Column:
    """`values` is null where the value is missing; `problems` says why the row at a position is bad."""

    values: pa.Array
    problems: Mapping[int, str]


def arrow_type(feature: Feature) -> pa.DataType:
    """How parsed values of `feature` are held: float32 as float64, because statistics are taken of these."""
    if isinstance(feature, Image):
        return ARROW_TYPE
    scalar = {"float32": pa.float64(), "int64": pa.int64(), "string": pa.string()}[feature.dtype]
    return pa.list_(scalar, int(np.prod(feature.shape))) if feature.shape else scalar


def parse(feature: Feature, cells: pa.Array, *, directory: str = "", undecoded: bool = False) -> Column:
    """Parses `cells` of any Arrow type into values of `arrow_type(feature)`.

    Text is cleaned up first. Numbers stay numbers, unless the schema declares markers or aliases for them;
    points in time are seconds since 1970-01-01 where a number is wanted. `directory` is what relative paths
    of images start from; `undecoded` says that binary cells are text, not an image's own bytes.
    """
    problems = Problems()
    cells = cell_text.plain(cells)
    if isinstance(feature, Tokens | Tensor):
        values = fixed_list(feature, cells, problems)
    elif isinstance(feature, Image):
        cells = decode(cells, problems) if undecoded else single(cells, problems)
        values = image(feature, cells, problems, directory=directory)
    else:
        values = _scalar(feature, single(cells, problems), problems)
    return Column(values=values, problems=problems)


def _scalar(feature: Feature, cells: pa.Array, problems: Problems) -> pa.Array:
    wants_number = feature.dtype != "string" and not (isinstance(feature, Label) and feature.classes)
    if not (wants_number and _is_clean_number(cells, feature.clean)):
        cells = clean(decode(cells, problems), feature.clean)
    if feature.missing == "reject":
        problems.add(cells.is_null(), "missing")
    return _PARSERS[type(feature)](feature, cells, problems)


def _is_clean_number(cells: pa.Array, rules: Clean) -> bool:
    kind = cells.type
    is_number = cell_text.is_number(kind) or pa.types.is_timestamp(kind) or pa.types.is_date(kind)
    return is_number and not rules.aliases and set(rules.null_markers) <= {""}


def to_text(cells: pa.Array) -> Column:
    """Text of `cells`; what is not UTF-8 becomes null and a problem."""
    problems = Problems()
    return Column(values=decode(cells, problems), problems=problems)


def _text(feature: Feature, cells: pa.Array, problems: Problems) -> pa.Array:
    return cells


def _numeric(feature: Numeric, cells: pa.Array, problems: Problems) -> pa.Array:
    values = number(feature, cells, problems)
    if feature.minimum is not None:
        problems.add(pc.less(values, feature.minimum), f"below the minimum of {feature.minimum}")
    if feature.maximum is not None:
        problems.add(pc.greater(values, feature.maximum), f"above the maximum of {feature.maximum}")
    return values


def _categorical(feature: Categorical, cells: pa.Array, problems: Problems) -> pa.Array:
    if feature.encoding == "integer":
        values = number(feature, cells, problems)
        if feature.unknown == "reject":
            outside = pc.or_(pc.less(values, 0), pc.greater_equal(values, feature.size))
            problems.add(outside, f"not in 0 … {feature.size - 1}")
        return values
    if feature.unknown == "reject":
        known = pc.is_in(cells, value_set=pa.array(feature.vocabulary, pa.string()))
        problems.add(pc.and_(cells.is_valid(), pc.invert(known)), "not in the vocabulary")
    return cells


def _label(feature: Label, cells: pa.Array, problems: Problems) -> pa.Array:
    if feature.task == "regression":
        return number(feature, cells, problems)
    index = pc.index_in(cells, value_set=pa.array(feature.classes, pa.string()), skip_nulls=True)
    problems.add(pc.and_(cells.is_valid(), index.is_null()), "not one of the classes")
    return index.cast(pa.int64())


_PARSERS: Mapping[type[Feature], Callable[[Feature, pa.Array, Problems], pa.Array]] = {
    Numeric: _numeric,
    Categorical: _categorical,
    Label: _label,
    Text: _text,
}
