"""Typed columns → `tf.train.Example` messages, written column by column straight to their wire form.

Building a protobuf object a row costs most of a usual conversion job. Here a map entry of
`Features.feature` is two pieces: a head, which depends on nothing but the payload's length, and the payload.
Both are made for a whole column at once, and Arrow joins the pieces of all columns to rows. Entries stand in
canonical order (feature names sorted by their UTF-8 bytes), which protobuf's own "deterministic"
serialisation does not promise.
"""

import functools
from collections.abc import Callable, Iterable, Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipeline.data.feature import Feature
from pipeline.data.schema import Schema
from pipeline.data.wire import entry_head, example_head

_VARINT_BYTES = 10  # of 64 bits, 7 a byte
_ROWS_AT_ONCE = 1 << 13  # so that a batch of usual rows stays in the processor's cache

Bytes = pa.LargeBinaryArray


def encode_rows(batches: Iterable[pa.RecordBatch], schema: Schema) -> Iterator[Bytes]:
    """One serialised Example a row. Missing values are written as their feature's `fill`."""
    for rows in batches:
        for start in range(0, rows.num_rows, _ROWS_AT_ONCE):
            yield encode(rows.slice(start, _ROWS_AT_ONCE), schema)


def encode(rows: pa.RecordBatch, schema: Schema) -> Bytes:
    """One serialised Example a row, all at once."""
    features = sorted(schema.features, key=lambda feature: feature.name.encode())
    pieces = [piece for feature in features for piece in _entry(feature, rows.column(feature.name))]
    length = functools.reduce(pc.add, map(pc.binary_length, pieces))
    return joined(_heads(length, example_head), *pieces)


def joined(*pieces: Bytes) -> Bytes:
    """The pieces of each row, one after the other."""
    return pc.binary_join_element_wise(*pieces, pa.scalar(b"", pa.large_binary()))


def _entry(feature: Feature, values: pa.Array) -> tuple[Bytes, Bytes]:
    """Head and payload of `feature`'s map entry for each row."""
    if values.null_count:
        values = values.fill_null(feature.fill)
    payload = _PAYLOAD[feature.wire](values)
    name = feature.name.encode()
    return _heads(pc.binary_length(payload), lambda length: entry_head(name, feature.wire, length)), payload


def _heads(lengths: pa.Array, head: Callable[[int], bytes]) -> Bytes:
    """What precedes payloads of `lengths` bytes; made once for each length that occurs."""
    lengths = lengths.dictionary_encode()
    heads = pa.array([head(length) for length in lengths.dictionary.to_pylist()], pa.large_binary())
    return heads.take(lengths.indices)


def _bytes(values: pa.Array) -> Bytes:
    return (
        values.cast(pa.binary()).cast(pa.large_binary())
        if pa.types.is_string(values.type)
        else (values.cast(pa.large_binary()))
    )


def _floats(values: pa.Array) -> Bytes:
    numbers = np.ascontiguousarray(matrix(values).astype("<f4"))
    return from_lengths(np.full(len(numbers), numbers.shape[1] * 4), numbers)


def _int64s(values: pa.Array) -> Bytes:
    """Varints: negative numbers are sent as their two's complement."""
    numbers = matrix(values).astype(np.int64).view(np.uint64)
    digits = numbers[..., np.newaxis] >> np.arange(0, 7 * _VARINT_BYTES, 7, dtype=np.uint64)
    sent = digits > 0  # [rows, n, 10]; a digit is sent if it or a higher one is not 0
    sent[..., 0] = True
    more = np.zeros_like(sent)
    more[..., :-1] = sent[..., 1:]
    encoded = (digits & 0x7F).astype(np.uint8) | (more * np.uint8(0x80))
    return from_lengths(sent.sum(axis=(1, 2)), encoded[sent])


_PAYLOAD: dict[str, Callable[[pa.Array], Bytes]] = {"bytes": _bytes, "float": _floats, "int64": _int64s}


def from_lengths(lengths: np.ndarray, content: np.ndarray) -> Bytes:
    """Cuts `content`, as bytes, into pieces of `lengths` bytes."""
    ends = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths, out=ends[1:])
    return Bytes.from_buffers(
        pa.large_binary(), len(lengths), [None, pa.py_buffer(ends), pa.py_buffer(content)]
    )


def matrix(values: pa.Array) -> np.ndarray:
    """[rows, n] numbers of a scalar column (n = 1) or a fixed-size list column."""
    if isinstance(values, pa.FixedSizeListArray):
        return values.flatten().to_numpy(zero_copy_only=False).reshape(len(values), values.type.list_size)
    return values.to_numpy(zero_copy_only=False).reshape(-1, 1)
