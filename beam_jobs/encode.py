"""Typed columns → `tf.train.Example` messages, written column by column straight to their wire form.

Building a protobuf object a row costs most of a usual conversion job. Here each distinct value of a column
is serialised once, as the whole map entry it will be in `Features.feature`, and rows are joined from those.
Entries stand in canonical order (feature names sorted by their UTF-8 bytes), which protobuf's own
"deterministic" serialisation does not promise.

Wire format: https://protobuf.dev/programming-guides/encoding/; messages: tensorflow/core/example/*.proto.
"""

from collections.abc import Callable, Sequence

import numpy as np
import pyarrow as pa

from pipeline.data.features import Feature, Image, Text
from pipeline.data.schema import Schema

# Tags (field number << 3 | 2, "length-delimited"). Every length-delimited field here has number 1, 2 or 3.
_FIELD_1, _FIELD_2, _FIELD_3 = b"\x0a", b"\x12", b"\x1a"
_LIST_TAG = {"bytes": _FIELD_1, "float": _FIELD_2, "int64": _FIELD_3}  # of `Feature`'s oneof


def encode(rows: pa.RecordBatch, schema: Schema) -> list[bytes]:
    """One serialised Example a row. Missing values are written as their feature's `fill`."""
    features = sorted(schema.features, key=lambda feature: feature.name.encode())
    columns = [_entries(feature, rows.column(feature.name)) for feature in features]
    bodies = map(b"".join, zip(*columns, strict=True))
    return [_delimited(_FIELD_1, body) for body in bodies]  # Example.features = 1


def _entries(feature: Feature, values: pa.Array) -> Sequence[bytes]:
    """The map entry of `feature` for each row."""
    key = feature.name.encode()
    if values.null_count:
        values = values.fill_null(feature.fill)
    if feature.wire == "float":
        return _float_entries(key, _matrix(values).astype("<f4"))
    if feature.shape:
        return _int64_list_entries(key, _matrix(values))
    if isinstance(feature, Image | Text):
        return [_bytes_entry(key, value) for value in values.cast(pa.large_binary()).to_pylist()]
    if feature.wire == "int64":
        return _by_distinct_value(values, lambda value: _entry(key, "int64", _packed(_varint(value))))
    return _by_distinct_value(values.cast(pa.binary()), lambda value: _bytes_entry(key, value))


def _by_distinct_value(values: pa.Array, entry: Callable[[int | bytes], bytes]) -> list[bytes]:
    coded = values.dictionary_encode()
    table = np.array([entry(value) for value in coded.dictionary.to_pylist()], dtype=object)
    return table[coded.indices.to_numpy()].tolist()


def _float_entries(key: bytes, numbers: np.ndarray) -> list[bytes]:
    """`numbers` is float32 [rows, n]: all entries have one length, so they are laid out as one array."""
    rows, n = numbers.shape
    payload = numbers.view(np.uint8).reshape(rows, 4 * n)
    example = _entry(key, "float", _packed(bytes(4 * n)))
    laid_out = np.empty((rows, len(example)), np.uint8)
    laid_out[:] = np.frombuffer(example, np.uint8)
    laid_out[:, len(example) - 4 * n :] = payload
    return laid_out.view(f"V{len(example)}").ravel().tolist()


def _int64_list_entries(key: bytes, numbers: np.ndarray) -> list[bytes]:
    distinct, where = np.unique(numbers, return_inverse=True)
    table = np.array([_varint(value) for value in distinct.tolist()], dtype=object)
    return [_entry(key, "int64", _packed(b"".join(row))) for row in table[where.reshape(numbers.shape)]]


def _matrix(values: pa.Array) -> np.ndarray:
    """[rows, n] numbers of a scalar column (n = 1) or a fixed-size list column."""
    if isinstance(values, pa.FixedSizeListArray):
        return values.flatten().to_numpy(zero_copy_only=False).reshape(len(values), values.type.list_size)
    return values.to_numpy(zero_copy_only=False).reshape(-1, 1)


def _bytes_entry(key: bytes, value: bytes) -> bytes:
    return _entry(key, "bytes", _delimited(_FIELD_1, value))  # BytesList.value = 1


def _packed(numbers: bytes) -> bytes:
    return _delimited(_FIELD_1, numbers)  # FloatList.value = Int64List.value = 1, packed


def _entry(key: bytes, wire: str, list_message: bytes) -> bytes:
    """Features.feature = 1, a map entry: key = 1, value (a Feature) = 2."""
    feature = _delimited(_LIST_TAG[wire], list_message)
    return _delimited(_FIELD_1, _delimited(_FIELD_1, key) + _delimited(_FIELD_2, feature))


def _delimited(tag: bytes, payload: bytes) -> bytes:
    return b"".join((tag, _varint(len(payload)), payload))


def _varint(value: int) -> bytes:
    value &= (1 << 64) - 1  # negative numbers are sent as their two's complement
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)
