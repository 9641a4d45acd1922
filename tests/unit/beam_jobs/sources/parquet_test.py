"""Parquet and Avro: typed, nested, and Parquet in input splits of row groups."""

import datetime
import pathlib
import random
import subprocess
import sys

import fastavro
import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest

from beam_jobs.sources.avro import AvroFiles
from beam_jobs.sources.parquet import ParquetFiles
from beam_jobs.sources.source import Source
from pipeline.base.errors import InputError
from tests.shared.raw_rows import read

ROWS = [{"n": number, "address": {"zip": f"{number:05}", "geo": None}} for number in range(100)]


@pytest.mark.parametrize("split_bytes", [100, 1000, 1 << 20])
def test_row_groups_come_once_with_their_row_numbers(tmp_path: pathlib.Path, split_bytes: int):
    path = tmp_path / "data.parquet"
    pa.parquet.write_table(pa.Table.from_pylist(ROWS), path, row_group_size=7)
    source = ParquetFiles(split_bytes=split_bytes, batch_rows=5)
    raw = read(source, path)
    rows = [
        (number, *row.values())
        for part in raw
        for number, row in zip(part.numbers.tolist(), part.columns.to_pylist(), strict=True)
    ]
    assert rows == [(number + 1, number, f"{number:05}", None) for number in range(100)]
    assert raw[0].columns.schema.names == ["n", "address.zip", "address.geo"]


def test_text_that_repeats_is_read_a_few_rows_at_a_time(tmp_path: pathlib.Path):
    values = [None, "Bern", "x" * 300, "", "Genf"] * 40
    nested = [None if number % 7 == 0 else {"c": value} for number, value in enumerate(values)]
    table = pa.table(
        {
            "text": values,
            "bytes": pa.array([value and value.encode() for value in values], pa.binary()),
            "in": nested,
            "lists": [None if value is None else [value, "y"] for value in values],
            "number": range(200),
        }
    )
    pa.parquet.write_table(table, tmp_path / "folded.parquet", row_group_size=90)
    parts = [raw.columns for raw in read(ParquetFiles(batch_bytes=1000), tmp_path / "folded.parquet")]
    assert max(part.select(["text", "bytes", "in.c"]).nbytes for part in parts) < 3000  # with their offsets
    flat = table.drop_columns("in").append_column("in.c", pa.array([row and row["c"] for row in nested]))
    assert pa.Table.from_batches(parts).to_pydict() == flat.to_pydict()


# Of a process of its own: other tests have left their mark on Arrow's pool.
_PEAK = """
import sys, pyarrow as pa
from beam_jobs.sources.parquet import ParquetFiles
from beam_jobs.sources.source import Input
source = ParquetFiles()
rows = [raw.columns for one in source.input_splits([Input(location=sys.argv[1])]) for raw in source.read(one)]
print(rows[0].column("text")[0].as_buffer().size, pa.default_memory_pool().max_memory())
"""


@pytest.mark.slow
def test_a_long_text_is_held_four_times_at_most_while_it_is_read(tmp_path: pathlib.Path):
    path = tmp_path / "one.parquet"
    pa.parquet.write_table(pa.table({"text": ["é" * 5_000_000]}), path)
    told = subprocess.run(
        [sys.executable, "-c", _PEAK, str(path)], capture_output=True, text=True, check=True
    ).stdout
    size, peak = map(int, told.split())
    assert size == 10_000_000
    assert peak < 4.5 * size


def test_two_columns_of_one_path_are_told_by_position(tmp_path: pathlib.Path):
    path = tmp_path / "data.parquet"
    pa.parquet.write_table(pa.table({"a": [{"b": 1}], "a.b": [2]}), path)
    [raw] = read(ParquetFiles(), path)
    assert raw.columns.to_pylist() == [{"a.b#1": 1, "a.b#2": 2}]


def test_times_of_int96_are_what_was_written_whatever_their_year(tmp_path: pathlib.Path):
    """Read as nanoseconds, the year 9999 is 1816 and the year 1500 is 2084."""
    path = tmp_path / "data.parquet"
    draw = random.Random(0)
    days = [datetime.datetime(draw.randint(1, 9999), 3, 1, 23, 59, 59, 999_999) for _ in range(50)]
    rows = [
        None,
        *days,
        datetime.datetime(9999, 12, 31),
        *(datetime.datetime(2024, 1, day) for day in range(1, 9)),
    ]
    unit = pa.timestamp("us")
    written = pa.table(
        {
            "t": pa.array(rows, unit),
            "s": pa.array([{"u": row} for row in reversed(rows)], pa.struct([("u", unit)])),
            "l": pa.array([[row, row] for row in rows], pa.list_(unit)),
        }
    )
    pa.parquet.write_table(written, path, use_deprecated_int96_timestamps=True, row_group_size=25)
    batches = read(ParquetFiles(batch_rows=7), path)
    numbers = np.concatenate([raw.numbers for raw in batches])
    assert sorted(numbers) == [*range(1, len(rows) + 1)]
    found = {name: [] for name in ("t", "s.u", "l")}
    for name, values in found.items():
        for raw in batches:
            cells = raw.column(name)
            values += cells.cast(pa.list_(unit) if name == "l" else unit, safe=True).to_pylist()
    order = np.argsort(numbers)
    assert [found["t"][at] for at in order] == rows
    assert [found["s.u"][at] for at in order] == rows[::-1]
    assert [found["l"][at] for at in order] == [[row, row] for row in rows]
    # A row of which nanoseconds hold all times keeps its type, and so its text and its place.
    in_microseconds = {int(n) for raw in batches if raw.column("t").type.unit == "us" for n in raw.numbers}
    far = [any(t and not 1678 <= t.year < 2262 for t in pair) for pair in zip(rows, rows[::-1], strict=True)]
    assert in_microseconds == {number for number, is_far in enumerate(far, 1) if is_far}


def test_avro_records_are_rows(tmp_path: pathlib.Path):
    path = tmp_path / "data.avro"
    schema = {
        "type": "record",
        "name": "row",
        "fields": [
            {"name": "n", "type": ["null", "long"]},
            {"name": "day", "type": {"type": "int", "logicalType": "date"}},
            {"name": "tags", "type": {"type": "map", "values": "string"}},
        ],
    }
    with path.open("wb") as file:
        fastavro.writer(
            file, schema, [{"n": 1, "day": 1, "tags": {"a": "x"}}, {"n": None, "day": 2, "tags": {}}]
        )
    [raw] = read(AvroFiles(), path)
    assert raw.column("n").to_pylist() == [1, None]
    assert raw.column("tags.a").to_pylist() == ["x", None]
    assert [str(day) for day in raw.column("day").to_pylist()] == ["1970-01-02", "1970-01-03"]


@pytest.mark.parametrize(("source", "name"), [(ParquetFiles(), "Parquet"), (AvroFiles(), "Avro")])
def test_other_files_are_refused(tmp_path: pathlib.Path, source: Source, name: str):
    path = tmp_path / "data"
    path.write_bytes(b"PAR1 Obj\x01 something else PAR1")
    with pytest.raises(InputError, match=f"does not read as {name}"):
        read(source, path)
