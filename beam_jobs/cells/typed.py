"""Turns one column of raw cells into typed values, and finds rows that do not conform to the schema.

Whole columns are converted at once; single rows are looked at only where a whole column did not convert.
"""

import dataclasses
from collections.abc import Callable, Mapping, Set

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from beam_jobs.cells import datetimes
from beam_jobs.cells import text as cell_text
from beam_jobs.cells.images import ARROW_TYPE, image
from beam_jobs.cells.lists import categories, fixed_list, multi_hot, single
from beam_jobs.cells.text import MISPLACED, MISSING, WITH_POINT, Problems, clean_text, decode, number
from pipeline.data.schema.feature import Clean, Feature
from pipeline.data.schema.feature_types import (
    MOST_RELEVANT,
    Categorical,
    Categories,
    Datetime,
    FeatureTypeTable,
    Image,
    Label,
    Numeric,
    Tensor,
    Text,
    Tokens,
)
from pipeline.data.schema.schema import Schema


@dataclasses.dataclass(frozen=True, kw_only=True)
class Column:
    """`values` is null where the value is missing; `problems` says why the row at a position is bad.

    `notes` has the rows that deserve a remark, by its kind, one of `cells.text.NOTES`.
    """

    values: pa.Array
    problems: Mapping[int, str]
    notes: Mapping[str, Set[int]] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True, kw_only=True)
class RawColumn:
    """Raw `cells` of any Arrow type, with facts from their source.

    Relative paths of images start from `directory`; other paths may lead into `path_roots`, or anywhere if
    that is None. With `undecoded`, binary cells are text, not an image's own bytes.
    """

    cells: pa.Array
    directory: str = ""
    path_roots: tuple[str, ...] | None = ()
    undecoded: bool = False


def _plain_arrow_type(feature: Feature) -> pa.DataType:
    """The type of a feature's cells. A float32 feature has float64 cells, of which statistics are taken."""
    scalar = {"float32": pa.float64(), "int64": pa.int64(), "string": pa.string()}[feature.dtype]
    return pa.list_(scalar, int(np.prod(feature.shape))) if feature.shape else scalar


@dataclasses.dataclass(frozen=True, kw_only=True)
class Cells:
    """The reader of one feature type.

    `parse` adds to the problems what is wrong with a row; a value that is missing or wrong may be anything.
    """

    parse: Callable[[Feature, RawColumn, Problems], pa.Array]
    arrow_type: Callable[[Feature], pa.DataType] = _plain_arrow_type


def arrow_type(feature: Feature) -> pa.DataType:
    """Arrow type of the parsed values of `feature`."""
    return _BY_TYPE.of(feature).arrow_type(feature)


def parse(
    feature: Feature,
    cells: pa.Array,
    *,
    directory: str = "",
    path_roots: tuple[str, ...] | None = (),
    undecoded: bool = False,
) -> Column:
    """Parses `cells` [rows] of any Arrow type into values [rows] of `arrow_type(feature)`.

    Text is cleaned up first. Numbers stay numbers, unless the schema declares markers or aliases for them;
    points in time are seconds since 1970-01-01 where a number is wanted. `directory`, `path_roots` and
    `undecoded`: see `RawColumn`.
    """
    problems = Problems()
    plain = cell_text.plain(cells)
    raw = RawColumn(cells=plain, directory=directory, path_roots=path_roots, undecoded=undecoded)
    values = _BY_TYPE.of(feature).parse(feature, raw, problems)
    return Column(values=values, problems=problems, notes=problems.notes)


def to_text(cells: pa.Array) -> Column:
    """Text of `cells` [rows]; what is not UTF-8 becomes null and a problem."""
    problems = Problems()
    return Column(values=decode(cells, problems), problems=problems)


def _numeric(feature: Numeric, raw: RawColumn, problems: Problems) -> pa.Array:
    values = _numbers(feature, raw, problems)
    if feature.minimum is not None:
        problems.add(pc.less(values, feature.minimum), f"below the minimum of {feature.minimum}")
    if feature.maximum is not None:
        problems.add(pc.greater(values, feature.maximum), f"above the maximum of {feature.maximum}")
    return pc.subtract(values, feature.offset) if feature.offset else values


def _categorical(feature: Categorical, raw: RawColumn, problems: Problems) -> pa.Array:
    if feature.encoding == "integer":
        values = _numbers(feature, raw, problems)
        if feature.unknown == "reject":
            _refuse_outside(feature.size, values, problems)
        return values
    values = _strings(feature, raw, problems)
    if feature.encoding == "hashed":
        problems.note(WITH_POINT, _whole_with_point(values))  # a vocabulary tells its unknown values
    if feature.unknown == "reject":
        known = pc.is_in(values, value_set=pa.array(feature.vocabulary, pa.string()))
        problems.add(pc.and_(values.is_valid(), pc.invert(known)), "not in the vocabulary")
    return values


def _whole_with_point(values: pa.StringArray) -> list[int]:
    """The positions of texts such as `1042.0`."""
    ends = np.flatnonzero(pc.ends_with(values, ".0").fill_null(False).to_numpy(zero_copy_only=False))
    digits = pc.utf8_slice_codeunits(values.take(pa.array(ends)), 0, -2)
    return ends[pc.ascii_is_decimal(digits).to_numpy(zero_copy_only=False)].tolist()


def _label(feature: Label, raw: RawColumn, problems: Problems) -> pa.Array:
    if not feature.classes:
        values = _numbers(feature, raw, problems)
        if feature.is_ranking:
            outside = pc.or_(pc.less(values, 0), pc.greater(values, MOST_RELEVANT))
            problems.add(outside, f"no relevance from 0 to {MOST_RELEVANT}")
        return values
    if feature.shape:
        return multi_hot(feature, raw.cells, problems)
    names = _strings(feature, raw, problems)
    index = pc.index_in(names, value_set=pa.array(feature.classes, pa.string()), skip_nulls=True)
    problems.add(pc.and_(names.is_valid(), index.is_null()), "not one of the classes")
    return index.cast(pa.int64())


def _image(feature: Image, raw: RawColumn, problems: Problems) -> pa.Array:
    cells = decode(raw.cells, problems) if raw.undecoded else single(raw.cells, problems)
    return image(feature, cells, problems, directory=raw.directory, path_roots=raw.path_roots)


def _tokens(feature: Tokens, raw: RawColumn, problems: Problems) -> pa.Array:
    def in_vocabulary(numbers: pa.Array, problems: Problems) -> None:
        _refuse_outside(feature.vocabulary_size, numbers, problems)

    return fixed_list(feature, raw.cells, problems, check=in_vocabulary)


def _tensor(feature: Tensor, raw: RawColumn, problems: Problems) -> pa.Array:
    return fixed_list(feature, raw.cells, problems)


def _datetime(feature: Datetime, raw: RawColumn, problems: Problems) -> pa.Int64Array:
    cells = single(raw.cells, problems)
    if cell_text.is_moment(cells.type):
        if set(feature.clean.null_markers) > {""}:
            known = clean_text(decode(cells, problems), feature.clean).is_valid()
            cells = pc.if_else(known, cells, pa.scalar(None, cells.type))
        return datetimes.from_timestamps(feature, _with_values(feature, cells, problems), problems)
    cells = clean_text(decode(cells, problems), feature.clean)
    return datetimes.from_text(feature, _with_values(feature, cells, problems), problems)


def _strings(feature: Feature, raw: RawColumn, problems: Problems) -> pa.StringArray:
    """Cleaned text; null where the value is missing."""
    cells = single(raw.cells, problems)
    return _with_values(feature, clean_text(decode(cells, problems), feature.clean), problems)


def _numbers(feature: Feature, raw: RawColumn, problems: Problems) -> pa.Array:
    """Returns int64, or float64 for a float32 feature; null where the value is missing."""
    cells = single(raw.cells, problems)
    if not _is_clean_number(cells, feature.clean):
        rules = feature.clean
        # The text of numbers has only digits and a point.
        if rules.rewrites and cell_text.is_number(cells.type):
            rules = dataclasses.replace(rules, remove=(), decimal=".")
        written = decode(cells, problems)
        cells = clean_text(written, rules)
        if rules.misplaced:
            wrong = pc.match_substring_regex(written, rules.misplaced)
            problems.add(pc.and_(cells.is_valid(), wrong), MISPLACED)
    values = number(feature, _with_values(feature, cells, problems), problems)
    if feature.clean.sentinels:
        found = pc.is_in(values.cast(pa.float64(), safe=False), value_set=pa.array(feature.clean.sentinels))
        if feature.missing == "reject":
            problems.add(found, MISSING)
        values = pc.if_else(found, pa.scalar(None, values.type), values)
    return values


def _with_values(feature: Feature, cells: pa.Array, problems: Problems) -> pa.Array:
    """Returns `cells`; a missing value is a problem where the schema rejects missing values."""
    if feature.missing == "reject":
        problems.add(cells.is_null(), MISSING)
    return cells


def _refuse_outside(size: int, numbers: pa.Array, problems: Problems) -> None:
    outside = pc.or_(pc.less(numbers, 0), pc.greater_equal(numbers, size))
    problems.add(outside, f"not in 0 … {size - 1}")


def _is_clean_number(cells: pa.Array, rules: Clean) -> bool:
    kind = cells.type
    is_number = cell_text.is_number(kind) or cell_text.is_moment(kind)
    return is_number and not rules.aliases and set(rules.null_markers) <= {""}


_BY_TYPE = FeatureTypeTable(
    where=__name__,
    question="how cells become values",
    entry="Cells, with `parse` of (feature, RawColumn, Problems) to an Arrow array",
    entries={
        Numeric: Cells(parse=_numeric),
        Categorical: Cells(parse=_categorical),
        Categories: Cells(parse=lambda feature, raw, problems: categories(feature, raw.cells, problems)),
        Label: Cells(parse=_label),
        Image: Cells(parse=_image, arrow_type=lambda feature: ARROW_TYPE),
        Text: Cells(parse=_strings),
        Tokens: Cells(parse=_tokens),
        Tensor: Cells(parse=_tensor),
        Datetime: Cells(parse=_datetime),
    },
)


# --- Arrow batches of typed rows, as workers exchange them.

# Columns of each row's order hash and origin. A feature's name is an identifier, so no name collides.
ORDER_COLUMN = ""
ORIGIN_COLUMN = "(origin)"
# Where rows are in groups: the group's key, binary, and a hash of the row, uint64, which orders the group.
GROUP_COLUMN, ROW_COLUMN = "(group)", "(row)"


def arrow_schema(schema: Schema, *, origins: bool = False) -> pa.Schema:
    """Returns the order hash, the origin (both uint64) where `origins` are kept, and a column a feature.

    Rows in groups have GROUP_COLUMN and ROW_COLUMN in between.
    """
    origin = [(ORIGIN_COLUMN, pa.uint64())] if origins else []
    group = [(GROUP_COLUMN, pa.binary()), (ROW_COLUMN, pa.uint64())] if schema.group else []
    return pa.schema([(ORDER_COLUMN, pa.uint64()), *origin, *group, *value_schema(schema.of_rows)])


def value_schema(schema: Schema) -> pa.Schema:
    """Returns the schema of the values: one column a feature."""
    return pa.schema([(feature.name, arrow_type(feature)) for feature in schema.features])
