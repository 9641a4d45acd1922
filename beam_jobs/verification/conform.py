"""Which stored records do not hold what the schema says, feature by feature over many records at once."""

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from google.protobuf.message import Message

from beam_jobs.image_files import BadImageError, check_image
from beam_jobs.sources.example_proto import NoExampleError, features_of
from pipeline.data.feature import Feature
from pipeline.data.features import Categorical, Image, Label, Numeric, Tokens
from pipeline.data.schema import Schema


def problems(records: Sequence[bytes], schema: Schema) -> dict[int, str]:
    """What is wrong with the record at each position; a record is named once, with its first problem."""
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
    """Which rows hold a value that the schema does not allow, bool [rows], and what is wrong with those."""
    if feature.wire == "bytes":
        return _wrong_strings(feature, flat)
    numbers = np.array(flat, np.float32 if feature.wire == "float" else np.int64)
    return outside(feature, numbers.reshape(-1, int(np.prod(feature.shape))))


def outside(feature: Feature, numbers: np.ndarray) -> tuple[np.ndarray, str]:
    """The same of numbers [rows, size]."""
    low, high = _range(feature)
    with np.errstate(invalid="ignore"):
        inside = np.isfinite(numbers) & (numbers >= low) & (numbers <= high)
    if feature.fill is not None:
        inside |= np.isnan(numbers) if feature.missing == "mark" else numbers == feature.fill
    return ~inside.all(axis=1), f"is outside of {low:g} … {high:g}"


def _range(feature: Feature) -> tuple[float, float]:
    """The least and largest number allowed, as the record's dtype rounds them."""
    low, high = -np.inf, np.inf
    match feature:
        case Numeric():
            low = -np.inf if feature.minimum is None else feature.minimum
            high = np.inf if feature.maximum is None else feature.maximum
        case Label() if feature.classes:
            low, high = 0, len(feature.classes) - 1
        case Categorical(unknown="reject"):
            low, high = 0, feature.size - 1
        case Tokens():
            low, high = 0, feature.vocabulary_size - 1
    return (float(np.float32(low)), float(np.float32(high))) if feature.wire == "float" else (low, high)


def _wrong_strings(feature: Feature, values: Sequence[bytes]) -> tuple[np.ndarray, str]:
    if isinstance(feature, Image):
        return _marked(not _is_image(value, feature) for value in values), "is no image as declared"
    if isinstance(feature, Categorical) and feature.unknown == "reject":
        allowed = {value.encode() for value in feature.vocabulary}
        if feature.fill is not None:
            allowed.add(str(feature.fill).encode())
        return _marked(value not in allowed for value in values), "is not in the vocabulary"
    return _marked(not _is_utf8(value) for value in values), "is not UTF-8"


def _is_image(value: bytes, feature: Image) -> bool:
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


def _marked(wrong: Iterable[bool]) -> np.ndarray:
    return np.fromiter(wrong, bool)
