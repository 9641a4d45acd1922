"""A record that two splits have is found when it is written, and can stop the publication."""

import pathlib
import re
import types

import pytest

from beam_jobs.checks.anomalies import Policy
from beam_jobs.checks.validate import Rules
from beam_jobs.conversion import dataset, plan
from beam_jobs.conversion.job import Conversion, convert
from beam_jobs.launch.run import Run
from beam_jobs.sources.csv import CsvFiles
from beam_jobs.sources.source import Input
from pipeline.base.errors import InputError
from pipeline.data.schema.feature_types import Numeric
from pipeline.data.schema.schema import Schema

SCHEMA = Schema(name="s", features=(Numeric(name="x"),))


def converted(directory: pathlib.Path, policy: Policy) -> dict:
    """Rows 0 … 9 to train, and 9, 9.0, 10 and 11 to test."""
    (directory / "train.csv").write_text("x\n" + "".join(f"{row}\n" for row in range(10)))
    (directory / "test.csv").write_text("x\n9\n9.0\n10\n11\n")
    inputs = [Input(location=str(directory / f"{split}.csv"), split=split) for split in ("train", "test")]
    conversion = Conversion(
        source=CsvFiles(),
        schema=SCHEMA,
        plan=plan.make_plan(inputs, CsvFiles(), SCHEMA, shard_bytes=1 << 20),
        rules=Rules(policy=policy),
        run=Run(runner="FnApiRunner", beam_flags=(), max_rejected_fraction=0.0),
        command="",
    )
    return convert(conversion, output=str(directory / "out"))


def test_equal_records_of_two_splits_are_reported(tmp_path: pathlib.Path):
    [anomaly] = converted(tmp_path, Policy())["anomalies"]
    assert (anomaly["kind"], anomaly["split"], anomaly["severity"]) == ("leakage", "test", "warning")
    assert anomaly["value"] == 0.5
    said = r"2 of 4 records are also in split 'train', for example s-test\.tfrecord-\S+ record \d+ \(x=9\)$"
    assert re.match(said, anomaly["message"])


def test_they_can_stop_the_publication(tmp_path: pathlib.Path):
    with pytest.raises(InputError, match=r"\(leakage\).*Nothing was published"):
        converted(tmp_path, Policy(severities={"leakage": "error"}))
    assert not (tmp_path / "out" / "manifest.json").exists()


@pytest.mark.parametrize(
    ("layout", "severity", "are_counted"),
    [("rows", "warning", True), ("blocks", "warning", False), ("blocks", "ignore", True)],
)
def test_blocks_are_not_looked_through(layout: str, severity: str, are_counted: bool):
    planned = types.SimpleNamespace(layout=layout, shards={"train": 1, "test": 1})
    policy = Policy(severities={"leakage": severity})
    assert dataset.are_leaks_counted(planned, policy) == are_counted


def test_blocks_cannot_be_stopped_for_what_their_index_does_not_tell():
    dataset.check_countable(Policy(severities={"leakage": "warning"}), layout="blocks")
    with pytest.raises(InputError, match="--severity=leakage=error: received --layout=blocks"):
        dataset.check_countable(Policy(severities={"leakage": "error"}), layout="blocks")
