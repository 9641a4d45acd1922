"""Stored records that do not hold what the schema says, found feature by feature in many records at once."""

import dataclasses
import functools
from collections.abc import Callable, Mapping, Sequence

import numpy as np
from google.protobuf.message import Message

from beam_jobs.cells.images import BadImageError, normalized
from beam_jobs.sources.tfrecord import NoExampleError, features_of
from pipeline.data.dataset import blocks
from pipeline.data.dataset.blocks import Field
from pipeline.data.schema import times
from pipeline.data.schema.feature import Feature
from pipeline.data.schema.feature_types import (
    MOST_RELEVANT,
    PADDING,
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
class Numbers:
    """Finite numbers from `low` to `high`, and what stands for a missing value."""

    low: float = -np.inf
    high: float = np.inf


@dataclasses.dataclass(frozen=True, kw_only=True)
class Strings:
    """The bytes that `accepts` takes; `problem` describes the bytes that it refuses."""

    accepts: Callable[[bytes], bool]
    problem: str


def conformance_problems(records: Sequence[bytes], schema: Schema) -> dict[int, str]:
    """The first problem of each record that has one, by the record's position."""
    found: dict[int, str] = {}
    decoded: dict[int, Mapping[str, Message]] = {}
    for position, record in enumerate(records):
        try:
            decoded[position] = features_of(record)
        except NoExampleError as error:
            found[position] = str(error)
    declared = {feature.name for feature in schema.features}
    for position, features in decoded.items():
        for name in sorted(features.keys() - declared):
            found.setdefault(position, f"feature '{name}' is not in the schema")
    for feature in schema.features:
        for position, problem in _of_feature(feature, decoded).items():
            found.setdefault(position, f"feature '{feature.name}' {problem}")
    return found


def _of_feature(feature: Feature, decoded: Mapping[int, Mapping[str, Message]]) -> dict[int, str]:
    name, wire_list, size = feature.name, f"{feature.wire}_list", int(np.prod(feature.shape))
    found: dict[int, str] = {}
    positions: list[int] = []
    flat: list[float | int | bytes] = []
    for position, features in decoded.items():
        message = features.get(name)
        values = () if message is None else getattr(message, wire_list).value
        if len(values) == size:
            positions.append(position)
            flat.extend(values)
        else:
            found[position] = _wrong_shape(message, wire_list, size)
    if positions:
        wrong, problem = _wrong(feature, flat)
        found |= {positions[row]: problem for row in np.flatnonzero(wrong).tolist()}
    return found


def _wrong_shape(message: Message | None, wire_list: str, size: int) -> str:
    kind = None if message is None else message.WhichOneof("kind")
    if kind is None:
        return "is absent"
    if kind != wire_list:
        return f"is {kind}, not {wire_list}"
    return f"has {len(getattr(message, kind).value):,} values in place of {size:,}"


def _wrong(feature: Feature, flat: Sequence[float | int | bytes]) -> tuple[np.ndarray, str]:
    """Rows that hold a value that the schema does not allow, bool [rows], and what is wrong with them."""
    values = allowed_values(feature)
    if isinstance(values, Strings):
        wrong = np.fromiter((not values.accepts(value) for value in flat), bool)
        return wrong.reshape(-1, int(np.prod(feature.shape))).any(axis=1), values.problem
    numbers = np.array(flat, np.float32 if feature.wire == "float" else np.int64)
    return outside_allowed(feature, values, numbers.reshape(-1, int(np.prod(feature.shape))))


def allowed_values(feature: Feature) -> Numbers | Strings:
    """Returns what a record may hold for the feature."""
    return _BY_TYPE.of(feature)(feature)


def outside_allowed(feature: Feature, allowed: Numbers, numbers: np.ndarray) -> tuple[np.ndarray, str]:
    """Rows of `numbers` [rows, size] that are not allowed, bool [rows], and what is wrong with them."""
    low, high = allowed.low, allowed.high
    if feature.wire == "float":  # the limits as a record rounds them
        low, high = float(np.float32(low)), float(np.float32(high))
    with np.errstate(invalid="ignore"):
        inside = np.isfinite(numbers) & (numbers >= low) & (numbers <= high)
    if feature.fill is not None:
        is_nan = feature.missing == "mark" and feature.wire == "float"
        inside |= np.isnan(numbers) if is_nan else numbers == feature.fill
    return ~inside.all(axis=1), f"is outside of {allowed.low:.10g} … {allowed.high:.10g}"


def _numeric(feature: Numeric) -> Numbers:
    low, high = feature.stored_range
    return Numbers(low=-np.inf if low is None else low, high=np.inf if high is None else high)


def _categorical(feature: Categorical) -> Numbers | Strings:
    if feature.encoding == "integer":
        return Numbers(low=0, high=feature.size - 1) if feature.unknown == "reject" else Numbers()
    if feature.unknown == "oov":
        return _UTF8
    known = {value.encode() for value in feature.vocabulary}
    if feature.fill is not None:
        known.add(str(feature.fill).encode())
    return Strings(accepts=known.__contains__, problem="is not in the vocabulary")


def _categories(feature: Categories) -> Strings:
    allowed = _categorical(feature)
    if allowed is _UTF8:
        return allowed
    return Strings(accepts=lambda value: not value or allowed.accepts(value), problem=allowed.problem)


def _label(feature: Label) -> Numbers:
    if feature.is_ranking:
        return Numbers(low=PADDING if feature.shape else 0, high=MOST_RELEVANT)
    if feature.shape:
        return Numbers(low=0, high=1)
    return Numbers(low=0, high=len(feature.classes) - 1) if feature.classes else Numbers()


def _image(feature: Image) -> Strings:
    # A record has the encoding that the conversion chose: a JPEG may have become a PNG.
    stored = dataclasses.replace(feature, encoding="any")
    return Strings(accepts=functools.partial(_is_image, stored), problem="is no image as declared")


def _is_image(feature: Image, value: bytes) -> bool:
    try:
        return normalized(value, feature) is value
    except BadImageError:
        return False


def _is_utf8(value: bytes) -> bool:
    try:
        value.decode()
    except UnicodeDecodeError:
        return False
    return True


_UTF8 = Strings(accepts=_is_utf8, problem="is not UTF-8")

_BY_TYPE: FeatureTypeTable[Callable[[Feature], Numbers | Strings]] = FeatureTypeTable(
    where=__name__,
    question="what a record may hold",
    entry="a function of the feature to Numbers or, for a string feature, Strings",
    entries={
        Numeric: _numeric,
        Categorical: _categorical,
        Categories: _categories,
        Label: _label,
        Image: _image,
        Text: lambda feature: _UTF8,
        Tokens: lambda feature: Numbers(low=0, high=feature.vocabulary_size - 1),
        Tensor: lambda feature: Numbers(),
        Datetime: lambda feature: Numbers(low=times.FIRST, high=times.LAST),
    },
)


# --- Record layouts.


@dataclasses.dataclass(frozen=True, kw_only=True)
class Layout:
    """Functions by which verification reads records."""

    problems: Callable[[Sequence[bytes], Schema], dict[int, str]]  # what is wrong, by the record's position
    rows: Callable[[bytes, Schema], list[bytes]]  # the content of each row of a record
    row_id: Callable[[bytes, Schema, Sequence[str]], bytes]  # the values of the named features of a row


def _example_id(row: bytes, schema: Schema, names: Sequence[str]) -> bytes:
    del schema
    try:
        features = features_of(row)
        return b"\x1f".join(features[name].SerializeToString() for name in names)
    except (NoExampleError, KeyError):
        return row  # `problems` reports such a record


def _block_rows(record: bytes, schema: Schema) -> list[bytes]:
    try:
        rows = _read_block(record, schema)
    except NoExampleError:
        return []
    content, width = rows.tobytes(), rows.itemsize
    return [content[start : start + width] for start in range(0, len(content), width)]


def _block_row_id(row: bytes, schema: Schema, names: Sequence[str]) -> bytes:
    [values] = np.frombuffer(row, blocks.row_dtype(schema))
    return b"\x1f".join(values[name].tobytes() for name in names)


def _block_problems(records: Sequence[bytes], schema: Schema) -> dict[int, str]:
    found: dict[int, str] = {}
    checks = [(feature.name, _check_of(feature)) for feature in schema.features]
    for position, record in enumerate(records):
        try:
            rows = _read_block(record, schema)
        except NoExampleError as error:
            found[position] = str(error)
            continue
        for name, check in checks:
            wrong, problem = check(rows[name].reshape(len(rows), -1))
            if wrong.any():
                found[position] = f"row {np.argmax(wrong):,} of the block: feature '{name}' {problem}"
                break
    return found


def _read_block(record: bytes, schema: Schema) -> np.ndarray:
    """Rows of the data, `blocks.row_dtype` [count]; raises NoExampleError if the record holds no block."""
    features = features_of(record)
    if not {blocks.ROWS, blocks.COUNT} <= features.keys():
        raise NoExampleError("not a block: no rows, or no count of them")
    rows, count = features[blocks.ROWS].bytes_list.value, features[blocks.COUNT].int64_list.value
    geometry = blocks.geometry(schema)
    if [len(values) for values in rows] != [geometry.payload] or len(count) != 1:
        raise NoExampleError(f"not a block of {geometry.rows:,} rows of {geometry.width:,} bytes")
    if not 1 <= count[0] <= geometry.rows:
        raise NoExampleError(f"a count of {count[0]:,} in a block of {geometry.rows:,} rows")
    return np.frombuffer(rows[0], blocks.row_dtype(schema))[: count[0]]


def _check_of(feature: Feature) -> Callable[[np.ndarray], tuple[np.ndarray, str]]:
    """Returns a function of numbers [rows, size]. It gives the rows that the schema does not allow, bool
    [rows], and what is wrong with them.
    """
    field = blocks.field(feature)
    if field.vocabulary:
        return functools.partial(_outside_vocabulary, feature, field)
    return functools.partial(outside_allowed, feature, allowed_values(feature))


def _outside_vocabulary(feature: Feature, field: Field, numbers: np.ndarray) -> tuple[np.ndarray, str]:
    inside = (numbers >= 0) & (numbers < len(field.vocabulary))
    inside |= (numbers == blocks.UNKNOWN) & field.may_be_unknown
    inside |= (numbers == blocks.MISSING) & (feature.missing == "mark" or bool(feature.shape))
    return ~inside.all(axis=1), "is no index into the vocabulary"


LAYOUTS: Mapping[str, Layout] = {
    "rows": Layout(problems=conformance_problems, rows=lambda record, schema: [record], row_id=_example_id),
    "blocks": Layout(problems=_block_problems, rows=_block_rows, row_id=_block_row_id),
}
