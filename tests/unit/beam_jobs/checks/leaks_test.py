"""A row that two splits of a dataset have is found in both layouts."""

import pathlib
import re

import pytest

from beam_jobs.checks.anomalies import Policy
from beam_jobs.checks.dataset import verify
from beam_jobs.checks.findings import leaks
from pipeline.data.schema.feature_types import Label, Numeric
from pipeline.data.schema.schema import Schema
from tests.shared.tiny_dataset import write_dataset

SCHEMA = Schema(name="s", features=(Numeric(name="id", number="int64"), Label(name="y", task="regression")))


@pytest.mark.parametrize("layout", ["rows", "blocks"])
def test_rows_of_two_splits_are_named(tmp_path: pathlib.Path, layout: str):
    ids = {"train": range(5), "validation": range(5, 8), "test": range(7, 9)}
    splits = {split: [{"id": number, "y": 0.0} for number in numbers] for split, numbers in ids.items()}
    dataset = write_dataset(tmp_path / "1.0.0", SCHEMA, splits, shards=1, layout=layout)
    [leak] = leaks(verify(dataset.directory), Policy())
    assert (leak.kind, leak.split, leak.value) == ("leakage", "test", 0.5)
    cells = " (id=7, y=0)" if layout == "rows" else ""
    assert "1 of 2 records are also in split 'validation', for example s-test." in leak.message
    assert re.search(rf" record 0( row \d)?{re.escape(cells)}$", leak.message)
