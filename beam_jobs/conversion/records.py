"""Typed columns → `tf.train.Example` messages, written column by column straight to their wire form.

One protobuf object a row costs most of a usual conversion job. Here a map entry of `Features.feature` has two
parts: a head, which depends only on the payload's length, and the payload. Both are made for a whole column
at once, and Arrow joins the parts of all columns to rows. Entries stand in canonical order, by the UTF-8
bytes of the feature's name; protobuf's own "deterministic" serialisation promises no such order.
"""

import dataclasses
import functools
import hashlib
import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import TracebackType
from typing import Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from apache_beam.io.filesystems import FileSystems

from beam_jobs.sources.files import write_bytes
from pipeline.data.dataset import blocks, shards
from pipeline.data.dataset.blocks import COUNT_BYTES, BlockFrame, Field
from pipeline.data.dataset.row_hashes import content_hashes
from pipeline.data.dataset.shards import Index
from pipeline.data.dataset.tfrecord import (
    FRAME_BYTES,
    VARINT_BYTES,
    bytes_head,
    entry_head,
    example_head,
    frame,
)
from pipeline.data.origins import files
from pipeline.data.schema.feature import Feature
from pipeline.data.schema.schema import Schema

# The limits keep a batch of usual rows, or of long lists, in the processor's cache.
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
    """Returns the most items of a list; 1 where there is no list."""
    return max((kind.list_size for kind in rows.schema.types if pa.types.is_fixed_size_list(kind)), default=1)


def joined(*parts: Bytes) -> Bytes:
    """Joins `parts`, binary [rows] each, row by row: binary [rows]."""
    return pc.binary_join_element_wise(*parts, pa.scalar(b"", pa.large_binary()))


def _entry(feature: Feature, values: pa.Array) -> tuple[Bytes, Bytes]:
    """Heads [rows] and payloads [rows] of the feature's map entries."""
    if values.null_count:
        values = values.fill_null(fill_of(feature))
    payload = _PAYLOAD[feature.wire](values)
    name, is_list = feature.name.encode(), pa.types.is_fixed_size_list(values.type)
    return _heads(
        pc.binary_length(payload), lambda length: entry_head(name, feature.wire, length, is_list=is_list)
    ), payload


def fill_of(feature: Feature) -> object:
    """What stands for a missing value of a column: the fill value, as often as a record has values."""
    return [feature.fill] * math.prod(feature.shape) if feature.shape else feature.fill


def _heads(lengths: pa.Array, head: Callable[[int], bytes]) -> Bytes:
    """Returns what precedes payloads of `lengths` bytes; made once for each length that occurs."""
    lengths = lengths.dictionary_encode()
    heads = pa.array([head(length) for length in lengths.dictionary.to_pylist()], pa.large_binary())
    return heads.take(lengths.indices)


def _bytes(values: pa.Array) -> Bytes:
    """The value [rows]; a list becomes a BytesList's content: tag, length and bytes of each item."""
    if pa.types.is_fixed_size_list(values.type):
        items = _bytes(values.flatten())
        joined_items = joined(_heads(pc.binary_length(items), bytes_head), items)
        lengths = pc.binary_length(joined_items).to_numpy().reshape(len(values), values.type.list_size)
        return from_lengths(lengths.sum(axis=1), _content(joined_items))
    values = values.cast(pa.binary()) if pa.types.is_string(values.type) else values
    return values.cast(pa.large_binary())


def _content(items: Bytes) -> np.ndarray:
    """All bytes of `items`, uint8 [n]."""
    return np.frombuffer(b"".join(items.to_pylist()), np.uint8)


def _floats(values: pa.Array) -> Bytes:
    numbers = np.ascontiguousarray(matrix(values).astype("<f4"))
    return from_lengths(np.full(len(numbers), numbers.shape[1] * 4), numbers)


def _int64s(values: pa.Array) -> Bytes:
    """Encodes varints; negative numbers are stored as their two's complement."""
    numbers = matrix(values).astype(np.int64).view(np.uint64)
    digits = numbers[..., np.newaxis] >> np.arange(0, 7 * VARINT_BYTES, 7, dtype=np.uint64)
    sent = digits > 0  # [rows, n, 10]; a digit is sent if it or a higher one is not 0
    sent[..., 0] = True
    more = np.zeros_like(sent)
    more[..., :-1] = sent[..., 1:]
    encoded = (digits & 0x7F).astype(np.uint8) | (more * np.uint8(0x80))
    return from_lengths(sent.sum(axis=(1, 2)), encoded[sent])


_PAYLOAD: dict[str, Callable[[pa.Array], Bytes]] = {"bytes": _bytes, "float": _floats, "int64": _int64s}


def from_lengths(lengths: np.ndarray, content: np.ndarray) -> Bytes:
    """The bytes of `content`, of any shape and dtype, cut into pieces of `lengths` bytes, int64 [rows]."""
    ends = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths, out=ends[1:])
    return Bytes.from_buffers(
        pa.large_binary(), len(lengths), [None, pa.py_buffer(ends), pa.py_buffer(content)]
    )


def matrix(values: pa.Array) -> np.ndarray:
    """Returns [rows, n] numbers of a scalar column (n = 1), or of fixed-size lists, of any depth."""
    rows, n = len(values), 1
    while isinstance(values, pa.FixedSizeListArray):
        n *= values.type.list_size
        values = values.flatten()
    return values.to_numpy(zero_copy_only=False).reshape(rows, n)


# --- Blocks of rows of fixed width, one Example each (`pipeline/data/dataset/blocks.py`).


def encode_blocks(batches: Iterable[pa.RecordBatch], schema: Schema) -> Iterator[Bytes]:
    """Batches of typed rows → serialised Examples, one for each block, [blocks]; only the last may be partly
    full.
    """
    frame, rows_in_block = blocks.frame_of_schema(schema), blocks.geometry(schema).rows
    fields, left = blocks.fields(schema), np.zeros(0, blocks.row_dtype(schema))
    for batch in batches:
        rows = np.concatenate([left, _to_rows(batch, schema, fields, left.dtype)])
        full = len(rows) // rows_in_block * rows_in_block
        yield _around(frame, rows[:full].reshape(-1, rows_in_block), count=rows_in_block)
        left = rows[full:]
    if len(left):
        yield _around(frame, np.resize(left, (1, rows_in_block)), count=len(left))


def _to_rows(
    batch: pa.RecordBatch, schema: Schema, fields: Mapping[str, Field], dtype: np.dtype
) -> np.ndarray:
    """Returns `blocks.row_dtype` [rows]."""
    rows = np.zeros(batch.num_rows, dtype)
    for feature in schema.features:
        numbers = _numbers(feature, fields[feature.name], batch.column(feature.name))
        rows[feature.name] = numbers.reshape(rows[feature.name].shape)
    return rows


def _numbers(feature: Feature, field: Field, values: pa.Array) -> np.ndarray:
    if field.vocabulary:
        return _indices(feature, field, values)
    numbers = matrix(values.fill_null(feature.fill) if values.null_count else values)
    if field.size is not None:
        return np.where((numbers >= 0) & (numbers < field.size), numbers, blocks.UNKNOWN)
    return numbers


def _indices(feature: Feature, field: Field, values: pa.Array) -> np.ndarray:
    if isinstance(values, pa.FixedSizeListArray):
        values = values.fill_null(fill_of(feature)).flatten() if values.null_count else values.flatten()
        values = pc.if_else(pc.equal(values, ""), pa.scalar(None, values.type), values)  # they fill up a list
    elif feature.missing == "default":
        values = values.fill_null(feature.fill)
    index = pc.index_in(values, value_set=pa.array(field.vocabulary, pa.string()), skip_nulls=True)
    index = index.fill_null(blocks.UNKNOWN)
    return pc.if_else(values.is_valid(), index, pa.scalar(blocks.MISSING, pa.int32())).to_numpy()


def _around(frame: BlockFrame, rows: np.ndarray, *, count: int) -> Bytes:
    """Examples that hold `rows`: structured [n, rows in a block]."""
    examples = np.empty((len(rows), frame.size), np.uint8)
    first, last = frame.rows_at, frame.rows_at + frame.payload
    examples[:, :first] = np.frombuffer(frame.head, np.uint8)
    examples[:, frame.count_at : frame.count_at + COUNT_BYTES] = (count & 0x7F | 0x80, count >> 7)
    examples[:, first:last] = np.ascontiguousarray(rows).view(np.uint8).reshape(len(rows), frame.payload)
    examples[:, last:] = np.frombuffer(frame.tail, np.uint8)
    return from_lengths(np.full(len(rows), frame.size), examples)


# --- Record layouts by the names of --layout.


Layout = Callable[[Iterable[pa.RecordBatch], Schema], Iterator[Bytes]]

LAYOUTS: Mapping[str, Layout] = {"rows": encode_rows, "blocks": encode_blocks}


def check_layout(layout: str, schema: Schema) -> None:
    """Raises InputError if rows of `schema` cannot be written in this layout."""
    if layout == "blocks":
        blocks.row_dtype(schema)


# --- A shard as it is written: the TFRecord file, its digest, and its index.


# 256 KiB: framed, hashed and written while they are in the processor's nearest cache
_BYTES_AT_ONCE = 1 << 18


@dataclasses.dataclass(frozen=True, kw_only=True)
class ShardDigest:
    """Counts and digest of a shard that is written."""

    records: int
    bytes: int
    sha256: str


class ShardFile:
    """A shard that grows by batches of records. No record stays in memory; leaving the context closes the
    file.
    """

    def __init__(self, path: str, *, index_path: str) -> None:
        self._file = FileSystems.create(path, compression_type="uncompressed")
        self._index_path = index_path
        self._digest = hashlib.sha256()
        self._bytes = 0
        self._lengths: list[np.ndarray] = [np.zeros(0, np.uint32)]
        self._hashes: list[np.ndarray] = [np.zeros(0, np.uint64)]

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()

    def add(self, records: Bytes) -> None:
        """Appends `records` [n]."""
        for part in _parts(records):
            self._add(part.to_pylist())

    def _add(self, payloads: Sequence[bytes]) -> None:
        framed = frame(payloads)
        self._file.write(framed)
        self._digest.update(framed)
        self._bytes += len(framed)
        self._lengths.append(np.fromiter(map(len, payloads), np.uint32, len(payloads)))
        self._hashes.append(content_hashes(payloads))

    def finish(self) -> ShardDigest:
        """Writes the index; call it once, after the last record."""
        # These arrays are converted one at a time, in place: with many small records they take most of the
        # memory.
        lengths = np.concatenate(self._lengths)
        del self._lengths
        hashes = np.concatenate(self._hashes)
        del self._hashes
        starts = np.arange(0, len(lengths) * FRAME_BYTES, FRAME_BYTES, dtype=np.uint64)
        starts[1:] += np.cumsum(lengths[:-1], dtype=np.uint64)
        index = Index(offsets=starts, lengths=lengths, hashes=hashes)
        write_bytes(self._index_path, shards.dumps(index))
        return ShardDigest(records=len(lengths), bytes=self._bytes, sha256=self._digest.hexdigest())


def _parts(records: Bytes) -> Iterator[Bytes]:
    """Yields `records` in slices of about `_BYTES_AT_ONCE`."""
    lengths = pc.binary_length(records).to_numpy()
    number = np.cumsum(lengths) // _BYTES_AT_ONCE  # number of the slice that each record is in
    ends = np.flatnonzero(np.diff(number, append=-1)) + 1
    for start, end in itertools.pairwise([0, *ends.tolist()]):
        yield records.slice(start, end - start)


# --- The origins of a shard (`pipeline/data/origins/files.py` has the format).


def write_origin_files(path: str, places: Sequence[np.ndarray], *, files_id: bytes, of: ShardDigest) -> None:
    """Writes the `places`, uint64 [n] each, of all rows of a shard, in stored order."""
    together = np.concatenate([np.zeros(0, np.uint64), *places])
    with FileSystems.create(path, compression_type="uncompressed") as file:
        for part in files.pack_rows(together, files_id=files_id, shard_sha256=of.sha256):
            file.write(part)
