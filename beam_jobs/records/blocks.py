"""Typed columns → blocks of rows of fixed width, one Example each (`pipeline/data/dataset/blocks.py`)."""

from collections.abc import Iterable, Iterator, Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from beam_jobs.records.examples import Bytes, from_lengths, matrix
from pipeline.data.dataset import block_frame, blocks
from pipeline.data.dataset.block_frame import COUNT_BYTES, BlockFrame
from pipeline.data.dataset.blocks import Field
from pipeline.data.schema.feature import Feature
from pipeline.data.schema.schema import Schema


def encode_blocks(batches: Iterable[pa.RecordBatch], schema: Schema) -> Iterator[Bytes]:
    """Batches of typed rows → one serialised Example a block, [blocks]; only the last may be partly full."""
    frame, rows_in_block = block_frame.of_schema(schema), blocks.geometry(schema).rows
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
    """`blocks.row_dtype` [rows]."""
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
    if feature.missing == "default":
        values = values.fill_null(feature.fill)
    index = pc.index_in(values, value_set=pa.array(field.vocabulary, pa.string()), skip_nulls=True)
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
