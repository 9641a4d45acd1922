"""The million small records of `small_records` twice: as one dataset, and cut into spans of one each."""

import itertools
import pathlib

import pyarrow.parquet

from benchmarks.reading import small_records
from benchmarks.reading.data import run_convert
from pipeline.data.schema import schema as schema_lib

LAYOUTS = ("rows", "blocks")


def written(scratch: pathlib.Path, *, rows: int, spans: int, layout: str) -> tuple[pathlib.Path, str]:
    """The directory of the whole, and a glob of its spans in order; written unless they are there."""
    whole = small_records.written(scratch, rows, layout=layout)
    here = scratch / f"{rows}" / f"{spans}-spans"
    ends = [rows * number // spans for number in range(spans + 1)]
    table = pyarrow.parquet.ParquetFile(whole.parent / "raw.parquet")
    for number, (first, end) in enumerate(itertools.pairwise(ends)):
        span = here / f"{number:03d}"
        if not (span / layout / "manifest.json").exists():
            span.mkdir(parents=True, exist_ok=True)
            schema_lib.save(small_records.schema(rows), span / "schema.json")
            pyarrow.parquet.write_table(table.read().slice(first, end - first), span / "raw.parquet")
            run_convert(span, span / "raw.parquet", "parquet", small_records.shards(layout), layout=layout)
    return whole, f"{here}/*/{layout}"
