"""Typed columns → `tf.train.Example` messages, written column by column straight to their wire form.

One protobuf object a row costs most of a usual conversion job. Here a map entry of `Features.feature` is two
parts: a head, which depends only on the payload's length, and the payload. Both are made for a whole column
at once, and Arrow joins the parts of all columns to rows. Entries stand in canonical order, by the UTF-8
bytes of the feature's name; protobuf's own "deterministic" serialisation promises no such order.
"""

import functools
from collections.abc import Callable, Iterable, Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipeline.data.dataset.example_bytes import entry_head, example_head
from pipeline.data.schema.feature import Feature
from pipeline.data.schema.schema import Schema

_VARINT_BYTES = 10  # of 64 bits, 7 a byte
# So that a batch of usual rows, or of long lists, stays in the processor's cache.
_ROWS_AT_ONCE, _ITEMS_AT_ONCE = 1 << 13, 1 << 15

Bytes = pa.LargeBinaryArray


def encode_rows(batches: Iterable[pa.RecordBatch], schema: Schema) -> Iterator[Bytes]:
    """Batches of typed rows → serialised Examples [rows]. A missing value is written as its `fill`."""
    for rows in batches:
        at_once = min(_ROWS_AT_ONCE, max(1, _ITEMS_AT_ONCE // _longest_list(rows)))
        for start in range(0, rows.num_rows, at_once):
            yield encode(rows.slice(start, at_once), schema)


def encode(rows: pa.RecordBatch, schema: Schema) -> Bytes:
    """Typed rows → serialised Examples [rows], all at once."""
    features = sorted(schema.features, key=lambda feature: feature.name.encode())
    parts = [part for feature in features for part in _entry(feature, rows.column(feature.name))]
    length = functools.reduce(pc.add, map(pc.binary_length, parts))
    return joined(_heads(length, example_head), *parts)


def _longest_list(rows: pa.RecordBatch) -> int:
    """Its items; 1 where there is no list."""
    return max((kind.list_size for kind in rows.schema.types if pa.types.is_fixed_size_list(kind)), default=1)


def joined(*parts: Bytes) -> Bytes:
    """Each of `parts` binary [rows] → the parts of each row, one after the other: binary [rows]."""
    return pc.binary_join_element_wise(*parts, pa.scalar(b"", pa.large_binary()))


def _entry(feature: Feature, values: pa.Array) -> tuple[Bytes, Bytes]:
    """Heads [rows] and payloads [rows] of the feature's map entries."""
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
    """The bytes of `content`, of any shape and dtype, cut into runs of `lengths`, int64 [rows]."""
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
