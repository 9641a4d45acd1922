"""Parquet files, local or remote, in input splits of whole row groups."""

import dataclasses
import itertools
from collections.abc import Iterable, Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet

from beam_jobs.cells import text
from beam_jobs.sources import files
from beam_jobs.sources.byte_streams import BATCH_BYTES
from beam_jobs.sources.columns import without_structs
from beam_jobs.sources.source import Input, InputSplit, RawRows
from pipeline.base.errors import InputError


@dataclasses.dataclass(frozen=True, kw_only=True)
class ParquetFiles:
    """Typed columns; those inside structs are named by their path. Rows are numbered through the file.

    Text that repeats is stored once: a file of kilobytes may hold gigabytes of it. So it is read as it is
    stored, and expanded `batch_bytes` at a time.
    """

    split_bytes: int = files.SPLIT_BYTES
    batch_rows: int = 1 << 14
    batch_bytes: int = BATCH_BYTES

    def input_splits(self, inputs: Iterable[Input]) -> list[InputSplit]:
        """Cuts files into byte ranges without reading footers: a row group belongs to the range in which it
        begins.
        """
        return [
            dataclasses.replace(input_split, bytes=end - start, start=start, end=end)
            for input_split in files.one_split_a_file(inputs)
            for start, end in files.ranges(input_split.bytes, self.split_bytes)
        ]

    def read(self, input_split: InputSplit) -> Iterator[RawRows]:
        [path] = input_split.paths
        try:
            rows = self._read(input_split)
            if _has_int96(path):
                both = zip(rows, self._read(input_split, coerce_int96_timestamp_unit="us"), strict=True)
                rows = itertools.chain.from_iterable(itertools.starmap(_with_all_times, both))
            yield from rows
        except (pa.ArrowException, OSError, ValueError) as error:
            raise InputError(
                f"input {path}",
                received=f"something that does not read as Parquet ({' '.join(str(error).split())[:200]})",
                expected="a complete Parquet file",
                action="Check how this file was written, or leave it out.",
            ) from None

    def _read(self, input_split: InputSplit, **options: str) -> Iterator[RawRows]:
        with files.open_seekable(input_split.paths[0]) as stream:
            metadata = pa.parquet.read_metadata(stream)
            yield from self._rows(
                input_split,
                pa.parquet.ParquetFile(
                    stream, metadata=metadata, read_dictionary=_folded(metadata), **options
                ),
            )

    def _rows(self, input_split: InputSplit, file: pa.parquet.ParquetFile) -> Iterator[RawRows]:
        groups = _groups(file.metadata)
        first_rows = np.cumsum([0, *(group.num_rows for group in groups)])
        end = input_split.bytes if input_split.end is None else input_split.end
        for number, group in enumerate(groups):
            if not input_split.start <= _first_byte(group) < end:
                continue
            row = int(first_rows[number])
            for batch in self._batches(file, number, input_split.paths[0]):
                yield RawRows(
                    columns=batch,
                    sources=input_split.paths[0].removeprefix(input_split.root),
                    numbers=np.arange(row, row + batch.num_rows) + 1,
                    directory=files.directory_of(input_split.paths[0]),
                )
                row += batch.num_rows

    def _batches(self, file: pa.parquet.ParquetFile, number: int, path: str) -> Iterator[pa.RecordBatch]:
        """Yields rows of a row group, in order, as many at once as `batch_bytes` may hold."""
        group = file.metadata.row_group(number)
        row_bytes = max(1, group.total_byte_size // max(1, group.num_rows))
        rows = min(self.batch_rows, max(1, self.batch_bytes // row_bytes))
        # Without it, the bytes after a row of long text would stay in memory until the next row is read.
        whole = file.read_row_group(number).to_batches() if group.num_rows == 1 else None
        for batch in whole or file.iter_batches(rows, row_groups=[number]):
            yield from _unfolded(without_structs(batch, path), self.batch_bytes)


# --- INT96, in which Spark and Impala wrote times. As nanoseconds, the year 9999 becomes 1816 without an
# error.


def _has_int96(path: str) -> bool:
    with files.open_seekable(path) as stream:
        schema = pa.parquet.read_metadata(stream).schema
    return any(schema.column(number).physical_type == "INT96" for number in range(len(schema)))


def _with_all_times(nanoseconds: RawRows, microseconds: RawRows) -> Iterator[RawRows]:
    """Yields the rows whose times nanoseconds can hold, and the others in microseconds.

    So the text of a time that fits into nanoseconds, by which rows are ordered, does not depend on its
    neighbours.
    """
    pairs = zip(nanoseconds.columns.columns, microseconds.columns.columns, strict=True)
    held = [_are_equal(*pair) for pair in pairs if pair[0].type != pair[1].type]
    fits = np.all(held, axis=0) if held else np.ones(nanoseconds.columns.num_rows, bool)
    for raw, chosen in ((nanoseconds, fits), (microseconds, ~fits)):
        if chosen.any():
            columns = raw.columns.filter(pa.array(chosen))
            yield dataclasses.replace(raw, columns=columns, numbers=raw.numbers[chosen])


def _are_equal(nanoseconds: pa.Array, microseconds: pa.Array) -> np.ndarray:
    """Returns whether the same times are in both columns, or lists of times, bool [rows]."""
    if text.is_list(nanoseconds.type):
        inside = _are_equal(nanoseconds.flatten(), microseconds.flatten())
        rows = pc.list_parent_indices(nanoseconds).to_numpy()
        return np.bincount(rows, ~inside, minlength=len(nanoseconds)) == 0
    if not pa.types.is_timestamp(nanoseconds.type):
        return np.zeros(len(nanoseconds), bool)
    counts, expected = (each.cast(pa.int64()).fill_null(0).to_numpy() for each in (nanoseconds, microseconds))
    return counts // 1000 == expected


def _groups(metadata: pa.parquet.FileMetaData) -> list[pa.parquet.RowGroupMetaData]:
    return [metadata.row_group(number) for number in range(metadata.num_row_groups)]


def _folded(metadata: pa.parquet.FileMetaData) -> list[str]:
    """Returns paths of columns, except lists, whose text or bytes are stored with a dictionary.

    In a group of one row nothing repeats, and expanding a long text would take twice its memory.
    """
    schema = metadata.schema
    return [
        schema.column(number).path
        for number in range(len(schema))
        if schema.column(number).physical_type == "BYTE_ARRAY"
        and schema.column(number).logical_type.type in ("STRING", "NONE")
        and not schema.column(number).max_repetition_level
        and any(
            group.num_rows > 1 and group.column(number).has_dictionary_page for group in _groups(metadata)
        )
    ]


def _unfolded(batch: pa.RecordBatch, batch_bytes: int) -> Iterator[pa.RecordBatch]:
    """Yields `batch` [rows] without dictionaries, in parts whose text is about `batch_bytes` or one row."""
    folded = [number for number, kind in enumerate(batch.schema.types) if pa.types.is_dictionary(kind)]
    ends = np.cumsum(np.sum([_bytes(batch.column(number)) for number in folded], axis=0), dtype=np.int64)
    start, done = 0, 0
    while folded and start < batch.num_rows:
        stop = max(start + 1, int(np.searchsorted(ends, done + batch_bytes, side="right")))
        part = batch.slice(start, stop - start)
        for number in folded:
            column = part.column(number).dictionary_decode()
            part = part.set_column(number, part.schema.names[number], column)
        yield part
        start, done = stop, int(ends[stop - 1])
    if not folded:
        yield batch


def _bytes(column: pa.DictionaryArray) -> np.ndarray:
    """Bytes of each value, int64 [rows]."""
    lengths = pc.binary_length(column.dictionary).take(column.indices)
    return lengths.fill_null(0).to_numpy().astype(np.int64)


def _first_byte(group: pa.parquet.RowGroupMetaData) -> int:
    if not group.num_columns:
        return 0
    column = group.column(0)
    return column.dictionary_page_offset or column.data_page_offset
