"""BigQuery's Storage Read API, as a fake client plays it. It never ran on the real service."""

import importlib.util
import types

import pyarrow as pa
import pytest

from beam_jobs.sources.bigquery import BigQueryTables
from beam_jobs.sources.source import Input
from pipeline.data.errors import InputError

TABLE = "projects/p/datasets/d/tables/t"
ROWS = [{"n": number, "at": {"city": f"c{number}"}} for number in range(10)]


class FakeClient:
    """Two streams of `ROWS`, in responses of three rows of which the first tells the schema."""

    def create_read_session(self, *, parent: str, read_session: dict, max_stream_count: int) -> object:
        assert (parent, max_stream_count > 1) == ("projects/p", True)
        if read_session != {"table": TABLE, "data_format": 2}:
            raise PermissionError("403 no such table, or not yours")
        streams = [types.SimpleNamespace(name=f"{parent}/sessions/s/streams/{number}") for number in range(2)]
        return types.SimpleNamespace(streams=streams, estimated_total_bytes_scanned=1000)

    def read_rows(self, name: str) -> list[object]:
        rows = ROWS[:7] if name.endswith("/0") else ROWS[7:]
        batches = pa.Table.from_pylist(rows).to_batches(max_chunksize=3)
        schemas = [batches[0].schema.serialize(), *[b""] * len(batches)]
        return [
            types.SimpleNamespace(
                arrow_schema=types.SimpleNamespace(serialized_schema=schema),
                arrow_record_batch=types.SimpleNamespace(serialized_record_batch=batch.serialize()),
            )
            for schema, batch in zip(schemas, batches, strict=False)
        ]


def test_every_stream_is_a_piece_and_every_row_is_read_once():
    source = BigQueryTables(client=FakeClient)
    pieces = source.pieces([Input(location="bigquery:p.d.t", split="train")])
    assert [(piece.split, piece.bytes) for piece in pieces] == [("train", 500)] * 2
    raw = [raw for piece in pieces for raw in source.read(piece)]
    rows = [row for part in raw for row in part.columns.to_pylist()]
    assert rows == [{"n": number, "at.city": f"c{number}"} for number in range(10)]
    assert raw[-1].place(0) == ("bigquery:p.d.t stream 1", 1)
    assert raw[1].place(0) == ("bigquery:p.d.t stream 0", 4)


@pytest.mark.parametrize(
    ("location", "message"),
    [("bigquery:t", "no name of a table"), ("bigquery:p.d.other", "a refusal of the service .403 no such")],
)
def test_a_table_that_cannot_be_read_is_refused(location: str, message: str):
    with pytest.raises(InputError, match=message):
        BigQueryTables(client=FakeClient).pieces([Input(location=location)])


@pytest.mark.skipif(
    importlib.util.find_spec("google.cloud") is not None, reason="Google's libraries are installed"
)
def test_without_googles_library_it_says_what_to_install():
    with pytest.raises(InputError, match=r"requirements-gcp\.txt"):
        BigQueryTables().pieces([Input(location="bigquery:p.d.t")])
