"""The record layouts, by the name that --layout gives them: batches of rows in, batches of records out."""

from collections.abc import Callable, Iterable, Iterator, Mapping

import pyarrow as pa

from beam_jobs.encode import Bytes, encode_rows
from beam_jobs.encode_blocks import encode_blocks
from pipeline.data import blocks
from pipeline.data.schema import Schema

Layout = Callable[[Iterable[pa.RecordBatch], Schema], Iterator[Bytes]]

LAYOUTS: Mapping[str, Layout] = {"rows": encode_rows, "blocks": encode_blocks}


def check_layout(layout: str, schema: Schema) -> None:
    """Raises InputError if rows of `schema` cannot be written in this layout."""
    if layout == "blocks":
        blocks.row_dtype(schema)
