"""The record layouts, by the name that --layout gives them: batches of rows in, batches of records out."""

from collections.abc import Callable, Iterable, Iterator, Mapping

import pyarrow as pa

from beam_jobs.records.blocks import encode_blocks
from beam_jobs.records.examples import Bytes, encode_rows
from pipeline.data.dataset import blocks
from pipeline.data.schema.schema import Schema

Layout = Callable[[Iterable[pa.RecordBatch], Schema], Iterator[Bytes]]

LAYOUTS: Mapping[str, Layout] = {"rows": encode_rows, "blocks": encode_blocks}


def check_layout(layout: str, schema: Schema) -> None:
    """Raises InputError if rows of `schema` cannot be written in this layout."""
    if layout == "blocks":
        blocks.row_dtype(schema)
