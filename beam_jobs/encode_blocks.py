"""Typed columns → blocks of rows of fixed width, one `tf.train.Example` each (`pipeline/data/blocks.py`)."""

from collections.abc import Iterable, Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from beam_jobs.encode import Bytes, from_lengths, matrix
from pipeline.data import block_frame, blocks
from pipeline.data.block_frame import COUNT_BYTES, BlockFrame
from pipeline.data.feature import Feature
from pipeline.data.features import Categorical
from pipeline.data.schema import Schema


def encode_blocks(batches: Iterable[pa.RecordBatch], schema: Schema) -> Iterator[Bytes]:
    """One serialised Example a block; only the last one is not full."""
    frame, rows_in_block = block_frame.of_schema(schema), blocks.geometry(schema).rows
    left = np.zeros(0, blocks.row_dtype(schema))
    for batch in batches:
        rows = np.concatenate([left, to_rows(batch, schema)])
        full = len(rows) // rows_in_block * rows_in_block
        yield _around(frame, rows[:full].reshape(-1, rows_in_block), count=rows_in_block)
        left = rows[full:]
    if len(left):
        yield _around(frame, np.resize(left, (1, rows_in_block)), count=len(left))


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


def _around(frame: BlockFrame, rows: np.ndarray, *, count: int) -> Bytes:
    """Examples of `rows`: structured [n, rows in a block]."""
    examples = np.empty((len(rows), frame.size), np.uint8)
    first, last = frame.rows_at, frame.rows_at + frame.payload
    examples[:, :first] = np.frombuffer(frame.head, np.uint8)
    examples[:, frame.count_at : frame.count_at + COUNT_BYTES] = (count & 0x7F | 0x80, count >> 7)
    examples[:, first:last] = np.ascontiguousarray(rows).view(np.uint8).reshape(len(rows), frame.payload)
    examples[:, last:] = np.frombuffer(frame.tail, np.uint8)
    return from_lengths(np.full(len(rows), frame.size), examples)
