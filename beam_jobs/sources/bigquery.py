"""BigQuery tables, `bigquery:PROJECT.DATASET.TABLE`, through the Storage Read API, as Arrow.

It never ran on the real service, only against a fake client in the tests. The launcher opens a read session
for each table, which is a snapshot of it. Each stream of the session is an input split, so a retry reads
the same rows. Rows have no order in BigQuery; the origin of a row is its stream, and its number there.

API: https://cloud.google.com/bigquery/docs/reference/storage/rpc/google.cloud.bigquery.storage.v1
"""

import dataclasses
import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from beam_jobs.sources.columns import without_structs
from beam_jobs.sources.source import Input, InputSplit, RawRows
from pipeline.base.errors import InputError

PREFIX = "bigquery:"
_TABLE = re.compile(r"bigquery:([^.:]+(?::[^.]+)?)\.(\w+)\.([\w$-]+)")
_ARROW = 2  # DataFormat.ARROW
_STREAMS = 1000  # the service gives at most so many


def _real_client() -> Any:
    try:
        from google.cloud import bigquery_storage
    except ImportError:
        raise InputError(
            "--format=bigquery",
            received="no library 'google-cloud-bigquery-storage'",
            expected="that library, which is not installed by default",
            action="Here and where workers run: pip install -r requirements/gcp.txt, or 'penstock[gcp]'.",
        ) from None
    return bigquery_storage.BigQueryReadClient()


@dataclasses.dataclass(frozen=True, kw_only=True)
class BigQueryTables:
    """Typed columns; those inside records are named by their path."""

    client: Callable[[], Any] = _real_client  # a function, because clients cannot be pickled

    def input_splits(self, inputs: Iterable[Input]) -> list[InputSplit]:
        client = self.client()
        return [input_split for given in inputs for input_split in _streams(client, given)]

    def read(self, input_split: InputSplit) -> Iterator[RawRows]:
        [stream] = input_split.paths
        schema, row = None, 0
        for response in self.client().read_rows(stream):
            if schema is None:  # only the first response holds it
                schema = pa.ipc.read_schema(pa.py_buffer(response.arrow_schema.serialized_schema))
            cells = pa.py_buffer(response.arrow_record_batch.serialized_record_batch)
            batch = pa.ipc.read_record_batch(cells, schema)
            yield RawRows(
                columns=without_structs(batch, input_split.input_root),
                sources=input_split.name,
                numbers=np.arange(row, row + batch.num_rows) + 1,
            )
            row += batch.num_rows


def _streams(client: Any, given: Input) -> Iterator[InputSplit]:
    named = _TABLE.fullmatch(given.location)
    if not named:
        raise _error(given, "no name of a table")
    project, dataset, table = named.groups()
    request = {"table": f"projects/{project}/datasets/{dataset}/tables/{table}", "data_format": _ARROW}
    try:
        session = client.create_read_session(
            parent=f"projects/{project}", read_session=request, max_stream_count=_STREAMS
        )
    except Exception as error:  # google.api_core, whose errors they are, is optional
        raise _error(given, f"a refusal of the service ({' '.join(str(error).split())[:200]})") from None
    if not session.streams:
        raise _error(given, "a table without rows", action="Name another table, or fill this one.")
    each = -(-session.estimated_total_bytes_scanned // len(session.streams))
    for stream in session.streams:
        yield InputSplit(
            paths=(stream.name,),
            root="",
            bytes=max(1, each),
            split=given.split,
            input_root=given.location,
            called=f"{given.location} stream {stream.name.rpartition('/')[2]}",
        )


def _error(
    given: Input,
    received: str,
    *,
    action: str = "Correct the name, or log in with `gcloud auth application-default login`.",
) -> InputError:
    return InputError(
        f"--input={given.location}",
        received=received,
        expected="bigquery:PROJECT.DATASET.TABLE, a table that you may read",
        action=action,
    )
