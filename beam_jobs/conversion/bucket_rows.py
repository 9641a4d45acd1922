"""The rows of one bucket in hash order. A bucket that is large in memory comes in parts.

A bucket is planned by the bytes of the input. Its rows take many times as much where the input is compressed,
or where each byte of a text becomes two numbers of a row.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence

import numpy as np
import pyarrow as pa

from beam_jobs.cells.rows import ORDER_COLUMN, ORIGIN_COLUMN, arrow_schema
from beam_jobs.conversion.assignment import shard_of
from beam_jobs.conversion.shuffle_files import Spill
from beam_jobs.records.examples import encode_rows
from pipeline.data.schema.schema import Schema

AT_ONCE = 64 << 20  # 64 MiB of rows are sorted at once, which takes three times as much

_ROWS_AT_ONCE = 1 << 13  # that are encoded to rank them

_Keep = Callable[[pa.RecordBatch], pa.RecordBatch]


def bucket_rows(
    sent: Sequence[bytes],
    schema: Schema,
    *,
    spill: Spill,
    number: int,
    count: int,
    at_once: int = AT_ONCE,
    origins: bool = False,
) -> Iterator[pa.RecordBatch]:
    """The rows `sent` to bucket `number` of the `count` of its split, in parts of about `at_once` bytes.

    Rows of one hash are in one part. They have a column of `origins` where these are kept.
    """
    columns = arrow_schema(schema, origins=origins)
    parts = -(-sum(map(spill.size, sent)) // at_once)
    for part in range(parts):
        rows = _together(sent, columns, spill=spill, keep=_only(number * parts + part, count * parts, parts))
        if rows.num_rows:
            yield in_hash_order(rows)


def in_hash_order(rows: pa.RecordBatch) -> pa.RecordBatch:
    """`rows` [rows] sorted by their order hash, uint64."""
    order = rows.column(ORDER_COLUMN).to_numpy()
    if np.all(order[1:] >= order[:-1]):  # one row, given millions of times, is not copied
        return rows
    return rows.take(pa.array(np.argsort(order, kind="stable")))


def ties_ranked(rows: pa.RecordBatch, schema: Schema) -> pa.RecordBatch:
    """`rows` [rows] in hash order → those of one hash sorted by records and origins, not by arrival."""
    order = rows.column(ORDER_COLUMN).to_numpy()
    same = order[1:] == order[:-1]
    tied = np.flatnonzero(np.append(same, False) | np.insert(same, 0, False))
    if not len(tied):
        return rows
    rank = _ranks(rows, tied, schema)
    if rank.any():  # else all records are equal
        by_rank = np.lexsort((rank, order[tied]))
        position = np.arange(rows.num_rows)
        position[tied] = tied[by_rank]
        rows, rank = rows.take(pa.array(position)), rank[by_rank]
    return _origins_ranked(rows, tied, rank) if ORIGIN_COLUMN in rows.schema.names else rows


def _origins_ranked(rows: pa.RecordBatch, tied: np.ndarray, rank: np.ndarray) -> pa.RecordBatch:
    """Sorts the origins of equal records, which stand together; `rank` is that of the `tied` rows."""
    number = rows.schema.get_field_index(ORIGIN_COLUMN)
    origins = rows.column(number).to_numpy().copy()
    order = rows.column(ORDER_COLUMN).to_numpy()[tied]
    origins[tied] = origins[tied[np.lexsort((origins[tied], rank, order))]]
    return rows.set_column(number, rows.schema.field(number), pa.array(origins))


def _ranks(rows: pa.RecordBatch, chosen: np.ndarray, schema: Schema) -> np.ndarray:
    """The place of each `chosen` row's record among all of them, equal ones sharing it: int32 [chosen].

    A record is kept once: rows that are tied are mostly one row, given millions of times.
    """
    places: dict[bytes, int] = {}
    codes = []
    parts = (chosen[start : start + _ROWS_AT_ONCE] for start in range(0, len(chosen), _ROWS_AT_ONCE))
    for encoded in encode_rows((rows.take(pa.array(part)) for part in parts), schema):
        records = encoded.dictionary_encode()
        known = [places.setdefault(record, len(places)) for record in records.dictionary.to_pylist()]
        codes.append(np.array(known, np.int32)[records.indices.to_numpy()])
    ranks = np.empty(len(places), np.int32)
    ranks[[places[record] for record in sorted(places)]] = np.arange(len(places))
    return ranks[np.concatenate(codes)]


def _only(bucket: int, buckets: int, parts: int) -> _Keep:
    """Leaves the rows of one of `buckets`; where there is one part, all of them are."""
    if parts == 1:
        return lambda rows: rows

    def keep(rows: pa.RecordBatch) -> pa.RecordBatch:
        return rows.filter(pa.array(shard_of(rows.column(ORDER_COLUMN).to_numpy(), buckets) == bucket))

    return keep


def _together(sent: Iterable[bytes], rows: pa.Schema, *, spill: Spill, keep: _Keep) -> pa.RecordBatch:
    read = [keep(pa.ipc.read_record_batch(pa.py_buffer(spill.get(one)), rows)) for one in sent]
    batches = pa.Table.from_batches(read, rows).combine_chunks().to_batches()
    return batches[0] if batches else pa.RecordBatch.from_pylist([], rows)  # a table without rows has none
