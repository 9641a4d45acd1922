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


def test_files_with_the_same_bytes_or_the_same_rows_are_reported(tmp_path: pathlib.Path):
    rows = [f"{row}.5,{row}" for row in range(20)]
    for name, header, lines in (
        ("day=1/a.csv", "x,more", rows),
        ("day=2/a.csv", "x,more", rows),
        ("c.csv", "x,more", [f'"{row}.5",{row}' for row in reversed(range(20))]),
        ("d.csv", "x,more", [*rows[1:], "7.5,7"]),
    ):
        path = tmp_path / "raw" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("\n".join([header, *lines]) + "\n")
    schema = Schema(name="s", features=(Numeric(name="x"),), ignore={"more": "not needed"})
    inputs = [Input(location=str(tmp_path / "raw"))]
    conversion = Conversion(
        source=CsvFiles(split_bytes=50),  # files are cut
        schema=schema,
        plan=plan.make_plan(inputs, CsvFiles(split_bytes=50), schema, shard_bytes=1 << 20),
        rules=Rules(policy=Policy()),
        run=Run(runner="FnApiRunner", beam_flags=(), max_rejected_fraction=0.0),
        command="",
    )
    found = convert(conversion, output=str(tmp_path / "out"))["anomalies"]
    [anomaly] = [each for each in found if each["kind"] == "repeated_file"]
    assert (anomaly["value"], anomaly["severity"]) == (2, "warning")
    assert "day=2/a.csv (of day=1/a.csv), day=1/a.csv (of c.csv)." in anomaly["message"]


def test_blocks_cannot_be_stopped_for_what_their_index_does_not_tell():
    dataset.check_countable(Policy(severities={"leakage": "warning"}), layout="blocks")
    with pytest.raises(InputError, match="--severity=leakage=error: received --layout=blocks"):
        dataset.check_countable(Policy(severities={"leakage": "error"}), layout="blocks")
