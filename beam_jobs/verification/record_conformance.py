"""Stored records that do not hold what the schema says, found feature by feature in many records at once."""

import dataclasses
import functools
from collections.abc import Callable, Mapping, Sequence

import numpy as np
from google.protobuf.message import Message

from beam_jobs.cells.image_check import BadImageError, check_image
from beam_jobs.sources.bytes.example_proto import NoExampleError, features_of
from pipeline.data.schema import civil
from pipeline.data.schema.datetime_kind import Datetime
from pipeline.data.schema.feature import Feature
from pipeline.data.schema.kind_table import KindTable
from pipeline.data.schema.kinds import Categorical, Image, Label, Numeric, Tensor, Text, Tokens
from pipeline.data.schema.schema import Schema


@dataclasses.dataclass(frozen=True, kw_only=True)
class Numbers:
    """Finite numbers from `low` to `high`; besides, what stands for a missing value."""

    low: float = -np.inf
    high: float = np.inf


@dataclasses.dataclass(frozen=True, kw_only=True)
class Strings:
    """The bytes that `accepts` is true of; `problem` says what others are."""

    accepts: Callable[[bytes], bool]
    problem: str


def problems(records: Sequence[bytes], schema: Schema) -> dict[int, str]:
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
    values = allowed(feature)
    if isinstance(values, Strings):
        return np.fromiter((not values.accepts(value) for value in flat), bool), values.problem
    numbers = np.array(flat, np.float32 if feature.wire == "float" else np.int64)
    return outside(feature, values, numbers.reshape(-1, int(np.prod(feature.shape))))


def allowed(feature: Feature) -> Numbers | Strings:
    """What a record may hold of the feature."""
    return _OF_KIND.of(feature)(feature)


def outside(feature: Feature, allowed: Numbers, numbers: np.ndarray) -> tuple[np.ndarray, str]:
    """Rows of `numbers` [rows, size] that are not allowed, bool [rows], and what is wrong with them."""
    low, high = allowed.low, allowed.high
    if feature.wire == "float":  # as the record rounds them
        low, high = float(np.float32(low)), float(np.float32(high))
    with np.errstate(invalid="ignore"):
        inside = np.isfinite(numbers) & (numbers >= low) & (numbers <= high)
    if feature.fill is not None:
        is_nan = feature.missing == "mark" and feature.wire == "float"
        inside |= np.isnan(numbers) if is_nan else numbers == feature.fill
    return ~inside.all(axis=1), f"is outside of {low:g} … {high:g}"


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


def _label(feature: Label) -> Numbers:
    return Numbers(low=0, high=len(feature.classes) - 1) if feature.classes else Numbers()


def _image(feature: Image) -> Strings:
    return Strings(accepts=functools.partial(_is_image, feature), problem="is no image as declared")


def _is_image(feature: Image, value: bytes) -> bool:
    try:
        check_image(value, feature)
    except BadImageError:
        return False
    return True


def _is_utf8(value: bytes) -> bool:
    try:
        value.decode()
    except UnicodeDecodeError:
        return False
    return True


_UTF8 = Strings(accepts=_is_utf8, problem="is not UTF-8")

_OF_KIND: KindTable[Callable[[Feature], Numbers | Strings]] = KindTable(
    where=__name__,
    tells="what a record may hold",
    entry="a function of the feature to Numbers or, for a string feature, Strings",
    entries={
        Numeric: _numeric,
        Categorical: _categorical,
        Label: _label,
        Image: _image,
        Text: lambda feature: _UTF8,
        Tokens: lambda feature: Numbers(low=0, high=feature.vocabulary_size - 1),
        Tensor: lambda feature: Numbers(),
        Datetime: lambda feature: Numbers(low=civil.FIRST, high=civil.LAST),
    },
)
