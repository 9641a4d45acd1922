"""The record layouts, by the name that --layout gives them: batches of rows in, batches of records out."""

from collections.abc import Callable, Iterable, Iterator, Mapping

import pyarrow as pa

from beam_jobs.encode import Bytes, encode_rows
from pipeline.data.schema import Schema

Layout = Callable[[Iterable[pa.RecordBatch], Schema], Iterator[Bytes]]

LAYOUTS: Mapping[str, Layout] = {"rows": encode_rows}
