"""Formats stored values as text: what the raw data said, as far as the record tells."""

import dataclasses
import datetime
import math
import zoneinfo
from collections.abc import Callable, Mapping

import numpy as np

from pipeline.data.schema import times
from pipeline.data.schema.feature import Feature
from pipeline.data.schema.feature_types import (
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

MISSING, EMPTY, NO_CLASS = "(missing)", "(empty)", "(no class)"
_MOST_NUMBERS = 8  # in a list, with four digits each
_SIGNATURES = {b"\xff\xd8\xff": "JPEG", b"\x89PNG": "PNG", b"GIF8": "GIF", b"RIFF": "WebP", b"BM": "BMP"}


def format_value(feature: Feature, value: np.ndarray) -> str:
    """Formats the value of a feature, [*feature.shape], like the raw data, as far as the record tells."""
    if feature.group_length:
        row = dataclasses.replace(feature, group_length=0)
        first = value[:_MOST_NUMBERS]
        shown = [format_value(row, first[at : at + 1].reshape(())) for at in range(len(first))]
        return " · ".join([*shown, *([f"… ({len(value):,} rows)"] if len(value) > len(shown) else [])])
    return _BY_TYPE.of(feature)(feature, value)


def format_label(schema: Schema, features: Mapping[str, np.ndarray]) -> str:
    """The label of an example; several labels have their names with them."""
    parts = [(schema[name], format_value(schema[name], features[name])) for name in schema.label.parts]
    return parts[0][1] if len(parts) == 1 else ", ".join(f"{each.name} {said}" for each, said in parts)


def _numeric(feature: Numeric, value: np.ndarray) -> str:
    if feature.missing == "mark" and value.dtype == np.float32 and math.isnan(value):
        return MISSING
    # The shortest number that is stored as this value. With an offset, float32 has fewer digits than the sum
    # shows.
    return f"{float(value) + feature.offset:.10g}" if feature.offset else _number(value)


def _categorical(feature: Categorical, value: np.ndarray) -> str:
    return str(int(value)) if feature.dtype == "int64" else _text(feature, value)


def _text(feature: Feature, value: np.ndarray) -> str:
    text = bytes(value[()]).decode(errors="backslashreplace")
    return text or (MISSING if feature.missing == "mark" else EMPTY)


def _categories(feature: Categories, value: np.ndarray) -> str:
    names = [bytes(each).decode(errors="backslashreplace") for each in value.ravel() if each]
    return ", ".join(names) or EMPTY


def _label(feature: Label, value: np.ndarray) -> str:
    if not feature.classes:
        return _number(value)
    if feature.shape:
        return ", ".join(feature.classes[at] for at in np.flatnonzero(value)) or NO_CLASS
    index = int(value)
    return feature.classes[index] if 0 <= index < len(feature.classes) else f"class {index}, unknown"


def image_format(data: bytes) -> str | None:
    """The name of a file's format; None where it is not known."""
    return next((name for start, name in _SIGNATURES.items() if data.startswith(start)), None)


def _image(feature: Image, value: np.ndarray) -> str:
    data = bytes(value[()])
    return f"{image_format(data) or 'unknown format'}, {len(data):,} bytes"


def _list(feature: Feature, value: np.ndarray) -> str:
    is_whole = np.issubdtype(value.dtype, np.integer)
    numbers = [f"{number:d}" if is_whole else f"{number:.4g}" for number in value.ravel()[:_MOST_NUMBERS]]
    more = [f"… ({value.size:,} numbers)"] if value.size > _MOST_NUMBERS else []
    return " ".join([*numbers, *more])


def _datetime(feature: Datetime, value: np.ndarray) -> str:
    microseconds = int(value)
    if microseconds == times.NOT_A_TIME:
        return MISSING
    since = datetime.timedelta(microseconds=microseconds)
    try:
        moment = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC) + since
        return moment.astimezone(zoneinfo.ZoneInfo(feature.zone)).isoformat(sep=" ")
    except OverflowError:
        return f"{microseconds:,} µs since 1970"


def _number(value: np.ndarray) -> str:
    return str(value[()]) if np.issubdtype(value.dtype, np.floating) else f"{int(value)}"


_BY_TYPE: FeatureTypeTable[Callable[[Feature, np.ndarray], str]] = FeatureTypeTable(
    where=__name__,
    question="how a stored value is written",
    entry="a function (feature, value [*feature.shape]) → text",
    entries={
        Numeric: _numeric,
        Categorical: _categorical,
        Categories: _categories,
        Label: _label,
        Image: _image,
        Text: _text,
        Tokens: _list,
        Tensor: _list,
        Datetime: _datetime,
    },
)
