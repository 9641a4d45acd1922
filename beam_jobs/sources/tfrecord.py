"""TFRecord files of `tf.train.Example` that others wrote, plain, gzip or zlib, whatever their name."""

import dataclasses
import datetime
import io
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory, text_format
from google.protobuf.message import DecodeError, Message

from beam_jobs.cells import text
from beam_jobs.sources import files
from beam_jobs.sources.byte_streams import in_batches
from beam_jobs.sources.source import Input, InputSplit, RawRows, Rejection
from pipeline.base.errors import InputError
from pipeline.data.dataset.tfrecord import CRC_BYTES, FRAME_BYTES, HEADER_BYTES, is_sound, payload_bytes
from pipeline.data.schema.feature import Feature
from pipeline.data.schema.feature_types import Datetime, Image, Label, Numeric
from pipeline.data.schema.schema import Schema

# --- The records of a TFRecord file.


_GZIP = b"\x1f\x8b"
_READ_BYTES = 8 << 20  # 8 MiB
_RECORD_BYTES = 128 << 20  # 128 MiB: a worker holds a record several times


class Frame(NamedTuple):
    payload: bytes
    is_intact: bool


def read_frames(stream: pa.NativeFile, path: str) -> Iterator[Frame]:
    """Raises InputError, with the offset, where a length is wrong or the file ends within a record."""
    buffered, offset = io.BufferedReader(stream, _READ_BYTES), 0
    while header := buffered.read(HEADER_BYTES):
        if len(header) < HEADER_BYTES:
            raise _frame_error(path, offset, "the end of the file within a record")
        length = payload_bytes(header)
        if length is None:
            raise _frame_error(path, offset, "a length whose checksum does not match")
        if length > _RECORD_BYTES:
            raise _frame_error(
                path, offset, f"a record of {length:,} bytes, of which {_RECORD_BYTES >> 20} MiB are read"
            )
        payload, checksum = buffered.read(length), buffered.read(CRC_BYTES)
        if len(checksum) < CRC_BYTES:
            raise _frame_error(path, offset, "the end of the file within a record")
        yield Frame(payload, is_sound(payload, checksum))
        offset += FRAME_BYTES + length


def _is_compressed(start: bytes) -> bool:
    """Returns whether a file is compressed as TensorFlow does it, GZIP or ZLIB, and does not begin with a
    record.
    """
    is_zlib = start[:1] == b"\x78" and int.from_bytes(start[:2]) % 31 == 0
    return payload_bytes(start) is None and (is_zlib or start.startswith(_GZIP))


def _frame_error(path: str, offset: int, received: str) -> InputError:
    return InputError(
        f"input {path}, byte {offset:,}",
        received=received,
        expected="TFRecords: length, checksum, payload, checksum",
        action="Check that this is a complete TFRecord file (gzip and zlib are recognised); or leave it out.",
    )


_TYPES = {"bytes_list": pa.binary(), "float_list": pa.float32(), "int64_list": pa.int64()}

Features = dict[str, Message]


@dataclasses.dataclass(frozen=True, kw_only=True)
class ExampleFiles:
    """A list column for each key; an input split for each file. A key without values is a missing value.

    A record with a wrong checksum is one rejected row, and so is a record that is not an Example. If the
    first record is not an Example, the file is refused: most likely it holds no Examples.
    """

    batch_rows: int = 1 << 12

    def input_splits(self, inputs: Iterable[Input]) -> list[InputSplit]:
        return files.one_split_a_file(inputs)

    def read(self, input_split: InputSplit) -> Iterator[RawRows]:
        [path] = input_split.paths
        try:
            with files.open_stream(path, is_compressed=_is_compressed) as stream:
                numbered = enumerate(read_frames(stream, path), 1)
                for batch in in_batches(
                    numbered, at_most=self.batch_rows, size=lambda frame: len(frame[1].payload)
                ):
                    yield _raw_rows(input_split, batch)
        except (OSError, EOFError) as error:
            raise _error(path, f"something that does not decompress ({error})") from None


def _raw_rows(input_split: InputSplit, batch: Sequence[tuple[int, Frame]]) -> RawRows:
    rows: list[Features] = []
    numbers: list[int] = []
    rejected: list[Rejection] = []
    for number, frame in batch:
        try:
            if not frame.is_intact:
                raise NoExampleError("checksum of the record does not match")
            rows.append(features_of(frame.payload))
            numbers.append(number)
        except NoExampleError as error:
            if number == 1 and frame.is_intact:
                raise _error(input_split.paths[0], str(error)) from None
            rejected.append(Rejection(source=input_split.name, row=number, reason=str(error)))
    return RawRows(
        columns=_columns_of(rows),
        sources=input_split.name,
        numbers=np.array(numbers, np.int64),
        rejected=tuple(rejected),
        sparse=True,
        directory=files.directory_of(input_split.paths[0]),
    )


def _columns_of(rows: Sequence[Features]) -> pa.RecordBatch:
    """A list column [rows] for each key that has a value in one of `rows`; null where a row has none."""
    names = sorted({name for row in rows for name in row})
    columns = {name: _column([row.get(name) for row in rows]) for name in names}
    present = {name: column for name, column in columns.items() if column.null_count < len(rows)}
    if not present:
        return pa.RecordBatch.from_struct_array(pa.array([{}] * len(rows), pa.struct([])))
    return pa.record_batch(present)


def _column(features: Sequence[Message | None]) -> pa.ListArray:
    kinds = [feature.WhichOneof("kind") if feature is not None else None for feature in features]
    lists = [
        list(getattr(feature, kind).value) or None if kind else None
        for feature, kind in zip(features, kinds, strict=True)
    ]
    found = {kind for kind, values in zip(kinds, lists, strict=True) if values}
    if len(found) <= 1:
        return pa.array(lists, pa.list_(_TYPES[found.pop()] if found else pa.binary()))
    # Where rows disagree on the type, all values are written as text.
    typed = [values and pa.array(values, _TYPES[kind]) for values, kind in zip(lists, kinds, strict=True)]
    as_text = [None if values is None else text.to_bytes(values).to_pylist() for values in typed]
    return pa.array(as_text, pa.list_(pa.binary()))


def _error(path: str, received: str) -> InputError:
    return InputError(
        f"input {path}",
        received=received,
        expected="TFRecords of tf.train.Example, plain, gzip or zlib",
        action="Convert it to Examples first, one a row, or leave it out.",
    )


# --- `tf.train.Example` without TensorFlow.
#
# Messages: tensorflow/core/example/{example,feature}.proto. SequenceExample and ExampleListWithContext (of
# TF-Ranking) share its first field, so they would parse as an Example with half of the data gone.


_FILE = """
name: "penstock_example.proto" package: "penstock" syntax: "proto3"
message_type { name: "BytesList" field { name: "value" number: 1 label: LABEL_REPEATED type: TYPE_BYTES } }
message_type { name: "FloatList" field { name: "value" number: 1 label: LABEL_REPEATED type: TYPE_FLOAT } }
message_type { name: "Int64List" field { name: "value" number: 1 label: LABEL_REPEATED type: TYPE_INT64 } }
message_type { name: "Feature" oneof_decl { name: "kind" }
  field { name: "bytes_list" number: 1 label: LABEL_OPTIONAL type: TYPE_MESSAGE
          type_name: ".penstock.BytesList" oneof_index: 0 }
  field { name: "float_list" number: 2 label: LABEL_OPTIONAL type: TYPE_MESSAGE
          type_name: ".penstock.FloatList" oneof_index: 0 }
  field { name: "int64_list" number: 3 label: LABEL_OPTIONAL type: TYPE_MESSAGE
          type_name: ".penstock.Int64List" oneof_index: 0 } }
message_type { name: "Features"
  field { name: "feature" number: 1 label: LABEL_REPEATED type: TYPE_MESSAGE
          type_name: ".penstock.Features.FeatureEntry" }
  nested_type { name: "FeatureEntry" options { map_entry: true }
    field { name: "key" number: 1 label: LABEL_OPTIONAL type: TYPE_STRING }
    field { name: "value" number: 2 label: LABEL_OPTIONAL type: TYPE_MESSAGE
            type_name: ".penstock.Feature" } } }
message_type { name: "Example"
  field { name: "features" number: 1 label: LABEL_OPTIONAL type: TYPE_MESSAGE
          type_name: ".penstock.Features" } }
"""
_FEATURES_TAG = 0x0A  # field 1, length-delimited
_RELATIVES_TAG = 0x12  # field 2: feature_lists of a SequenceExample, context of an ExampleListWithContext


class NoExampleError(ValueError):
    """Raised where a record is not a `tf.train.Example`; the message says what it is instead."""


def _message_class() -> type[Message]:
    # In a separate pool, the name cannot collide with TensorFlow's own declaration.
    pool = descriptor_pool.DescriptorPool()
    file = text_format.Parse(_FILE, descriptor_pb2.FileDescriptorProto())
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("penstock.Example"))


_Example = _message_class()


def features_of(record: bytes) -> dict[str, Message]:
    """The `Feature` of each key; raises NoExampleError unless `record` is one Example."""
    tags = _top_level_tags(record)
    if _RELATIVES_TAG in tags:
        raise NoExampleError("a SequenceExample or an ExampleListWithContext, not a tf.train.Example")
    if set(tags) == {_FEATURES_TAG} and len(tags) > 1:
        raise NoExampleError("an ExampleListWithContext or another list, not a tf.train.Example")
    if tags not in ([], [_FEATURES_TAG]):
        raise NoExampleError("not a tf.train.Example")
    try:
        entries = _Example.FromString(record).features.feature
    except DecodeError:
        raise NoExampleError("not a tf.train.Example") from None
    features = {name: entries[name] for name in entries}
    if not "".join(features).isprintable():
        raise NoExampleError("not a tf.train.Example")  # one message deeper, for example a list of Examples
    return features


def _top_level_tags(record: bytes) -> list[int]:
    """The tags of a message whose fields are all length-delimited; [-1] if `record` is no such message."""
    tags, at = [], 0
    while at < len(record):
        tags.append(record[at])
        length, shift, at = 0, 0, at + 1
        while at < len(record):
            byte = record[at]
            length |= (byte & 0x7F) << shift
            shift, at = shift + 7, at + 1
            if byte < 0x80:
                break
        at += length
    return tags if at == len(record) else [-1]


# --- A record as a line for messages.


_OF_VALUE, _OF_LINE = 40, 200  # characters
_EPOCH = datetime.datetime(1970, 1, 1)


def example_text(record: bytes, schema: Schema) -> str:
    """Formats as `name=value` the features whose values may be shown; empty if it is not an Example.

    Numbers, classes and times are written as in raw data.
    """
    try:
        features = features_of(record)
    except NoExampleError:
        return ""
    listed = (feature for feature in schema.features if feature.statistics != "none")
    cells = [f"{f.name}={_values(f, features[f.name])}" for f in listed if f.name in features]
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
