"""Typed columns → blocks of rows of fixed width, one `tf.train.Example` each (`pipeline/data/blocks.py`)."""

import dataclasses
import itertools
from collections.abc import Iterable, Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from beam_jobs.encode import FIELD_1, Bytes, entry_head, from_lengths, matrix, varint
from pipeline.data import blocks
from pipeline.data.blocks import Geometry
from pipeline.data.feature import Feature
from pipeline.data.features import Categorical
from pipeline.data.framing import FRAME_BYTES, HEADER_BYTES
from pipeline.data.schema import Schema

_COUNT_BYTES = 2  # a varint that is padded to this size holds up to 2**14 - 1


def encode_blocks(batches: Iterable[pa.RecordBatch], schema: Schema) -> Iterator[Bytes]:
    """One serialised Example a block; only the last one is not full."""
    frame = _frame(blocks.geometry(schema))
    rows_in_block = frame.geometry.rows
    left = np.zeros(0, blocks.row_dtype(schema))
    for batch in batches:
        rows = np.concatenate([left, to_rows(batch, schema)])
        full = len(rows) // rows_in_block * rows_in_block
        yield frame.around(rows[:full].reshape(-1, rows_in_block), count=rows_in_block)
        left = rows[full:]
    if len(left):
        yield frame.around(np.resize(left, (1, rows_in_block)), count=len(left))


def to_rows(batch: pa.RecordBatch, schema: Schema) -> np.ndarray:
    """`blocks.row_dtype` [rows]."""
    rows = np.zeros(batch.num_rows, blocks.row_dtype(schema))
    for feature in schema.features:
        rows[feature.name] = _numbers(feature, batch.column(feature.name)).reshape(rows[feature.name].shape)
    return rows


def _numbers(feature: Feature, values: pa.Array) -> np.ndarray:
    if blocks.is_index(feature):
        return _indices(feature, values)
    numbers = matrix(values.fill_null(feature.fill) if values.null_count else values)
    if isinstance(feature, Categorical):  # of encoding 'integer'
        return np.where((numbers >= 0) & (numbers < feature.size), numbers, blocks.UNKNOWN)
    return numbers


def _indices(feature: Feature, values: pa.Array) -> np.ndarray:
    if feature.missing == "default":
        values = values.fill_null(feature.fill)
    index = pc.index_in(values, value_set=pa.array(feature.vocabulary, pa.string()), skip_nulls=True)
    index = index.fill_null(blocks.UNKNOWN)
    return pc.if_else(values.is_valid(), index, pa.scalar(blocks.MISSING, pa.int32())).to_numpy()


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Frame:
    """All bytes of a block's Example but its rows and their count."""

    geometry: Geometry
    head: bytes  # up to the rows; ends in the count and the rows' own head
    count_at: int
    tail: bytes

    def around(self, rows: np.ndarray, *, count: int) -> Bytes:
        """Examples of `rows`: structured [n, rows in a block]."""
        size = len(self.head) + self.geometry.payload + len(self.tail)
        examples = np.empty((len(rows), size), np.uint8)
        examples[:, : len(self.head)] = np.frombuffer(self.head, np.uint8)
        examples[:, self.count_at : self.count_at + _COUNT_BYTES] = (count & 0x7F | 0x80, count >> 7)
        examples[:, len(self.head) : size - len(self.tail)] = (
            np.ascontiguousarray(rows).view(np.uint8).reshape(len(rows), self.geometry.payload)
        )
        examples[:, size - len(self.tail) :] = np.frombuffer(self.tail, np.uint8)
        return from_lengths(np.full(len(rows), size), examples)


def _frame(geometry: Geometry) -> _Frame:
    """Pads so that in a TFRecord file a block's rows and the next block start at multiples of the width."""
    # The Example's own head tells its size, which depends on the padding: try each length of that head.
    for head_bytes in itertools.count(2):
        count = entry_head(blocks.COUNT.encode(), "int64", _COUNT_BYTES) + bytes(_COUNT_BYTES)
        rows_head = entry_head(blocks.ROWS.encode(), "bytes", geometry.payload)
        before = _padding(
            blocks.BEFORE, HEADER_BYTES + head_bytes + len(count) + len(rows_head), geometry.width
        )
        inner = before + count + rows_head
        footer_bytes = FRAME_BYTES - HEADER_BYTES
        tail = _padding(blocks.AFTER, footer_bytes, geometry.width)
        head = FIELD_1 + varint(len(inner) + geometry.payload + len(tail))
        if len(head) == head_bytes:
            count_at = len(head) + len(before) + len(count) - _COUNT_BYTES
            return _Frame(geometry=geometry, head=head + inner, count_at=count_at, tail=tail)
    raise AssertionError("unreachable")


def _padding(name: str, others: int, width: int) -> bytes:
    """A map entry of zeros that, with `others` bytes, fills a multiple of `width`."""
    sizes = (len(entry_head(name.encode(), "bytes", zeros)) + zeros for zeros in itertools.count())
    zeros = next(zeros for zeros, size in enumerate(sizes) if (size + others) % width == 0)
    return entry_head(name.encode(), "bytes", zeros) + bytes(zeros)
