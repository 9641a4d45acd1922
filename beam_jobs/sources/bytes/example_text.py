"""What a record holds, as a line for messages."""

import datetime

from google.protobuf.message import Message

from beam_jobs.sources.bytes.example_proto import NoExampleError, features_of
from pipeline.data.schema.datetime_kind import Datetime
from pipeline.data.schema.feature import Feature
from pipeline.data.schema.kinds import Image, Label, Numeric
from pipeline.data.schema.schema import Schema

_OF_VALUE, _OF_LINE = 40, 200  # characters that are shown
_EPOCH = datetime.datetime(1970, 1, 1)


def example_text(record: bytes, schema: Schema) -> str:
    """`name=value` of each feature whose values may leave the records; empty if `record` is no Example.

    Numbers, classes and times are shown as raw data have them.
    """
    try:
        features = features_of(record)
    except NoExampleError:
        return ""
    shown = (feature for feature in schema.features if feature.statistics != "none")
    cells = [f"{f.name}={_values(f, features[f.name])}" for f in shown if f.name in features]
    return _shortened(", ".join(cells), _OF_LINE)


def _values(feature: Feature, stored: Message) -> str:
    values = getattr(stored, stored.WhichOneof("kind") or "float_list").value
    return _shortened(" ".join(_value(feature, value) for value in values[:_OF_VALUE]), _OF_VALUE)


def _value(feature: Feature, value: bytes | float | int) -> str:
    if isinstance(value, bytes):
        is_image = isinstance(feature, Image)
        return f"{len(value):,} bytes" if is_image else repr(value[: 4 * _OF_VALUE].decode(errors="ignore"))
    if isinstance(feature, Label) and 0 <= value < len(feature.classes):
        return repr(feature.classes[int(value)])
    if isinstance(feature, Datetime) and value != feature.marker:
        return str(_EPOCH + datetime.timedelta(microseconds=value))
    if isinstance(feature, Numeric) and feature.dtype == "float32":
        return f"{value + feature.offset:.9g}"
    return f"{value:.7g}" if isinstance(value, float) else str(value)


def _shortened(text: str, characters: int) -> str:
    return text if len(text) <= characters else f"{text[: characters - 1]}…"
