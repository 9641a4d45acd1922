"""BigQuery's Storage Read API, as a fake client plays it. It never ran on the real service."""

import importlib.util

import pytest

from beam_jobs.sources.bigquery import BigQueryTables
from beam_jobs.sources.source import Input
from pipeline.base.errors import InputError
from tests.conformance.source_samples import NOTE, FakeBigQuery


def test_every_stream_is_an_input_split_and_every_row_is_read_once():
    source = BigQueryTables(client=FakeBigQuery)
    input_splits = source.input_splits([Input(location="bigquery:p.d.t", split="train")])
    assert [(input_split.split, input_split.bytes) for input_split in input_splits] == [("train", 500)] * 2
    raw = [raw for input_split in input_splits for raw in source.read(input_split)]
    rows = [row for part in raw for row in part.columns.to_pylist()]
    assert rows == [{"number": number, "at.note": NOTE} for number in range(10)]
    assert raw[-1].origin(0) == ("bigquery:p.d.t stream 1", 1)
    assert raw[1].origin(0) == ("bigquery:p.d.t stream 0", 4)


@pytest.mark.parametrize(
    ("location", "message"),
    [("bigquery:t", "no name of a table"), ("bigquery:p.d.other", "a refusal of the service .403 no such")],
)
def test_a_table_that_cannot_be_read_is_refused(location: str, message: str):
    with pytest.raises(InputError, match=message):
        BigQueryTables(client=FakeBigQuery).input_splits([Input(location=location)])


@pytest.mark.skipif(
    importlib.util.find_spec("google.cloud") is not None, reason="Google's libraries are installed"
)
def test_without_googles_library_it_says_what_to_install():
    with pytest.raises(InputError, match=r"requirements/gcp\.txt"):
        BigQueryTables().input_splits([Input(location="bigquery:p.d.t")])
