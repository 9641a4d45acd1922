"""Chicago taxi trips: statistics equal those of other tools, and validation tells drift from chance."""

import json
import math
import pathlib
import random
from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pytest

from pipeline.data.dataset import manifest as manifest_lib
from pipeline.data.schema import schema as schema_lib
from pipeline.data.schema.feature_types import Categorical, Label, Numeric
from pipeline.data.schema.schema import Schema
from pipeline.data.statistics import loading
from tests.shared.fixtures.raw_data import DATA, Ended, RunBinary, needs_data

pytestmark = [needs_data, pytest.mark.slow]

CATEGORIES = ("payment_type", "company")
NUMBERS = (
    *("pickup_community_area", "fare", "trip_start_month", "trip_start_hour", "trip_start_day"),
    *("trip_start_timestamp", "pickup_latitude", "pickup_longitude", "dropoff_latitude", "dropoff_longitude"),
    *("trip_miles", "pickup_census_tract", "dropoff_census_tract", "trip_seconds", "dropoff_community_area"),
)
TAXI = Schema(
    name="taxi",
    features=(
        *(Numeric(name=name, missing="mark") for name in NUMBERS),
        *(Categorical(name=name, missing="mark") for name in CATEGORIES),
        Label(name="tips", task="regression"),
    ),
)

Convert = Callable[..., Ended]


def taxi_csv() -> pathlib.Path:
    return pathlib.Path(DATA) / "chicago_taxi" / "data.csv"


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    root = tmp_path_factory.mktemp("taxi")
    schema_lib.save(TAXI, root / "schema.json")
    return root


@pytest.fixture(scope="module")
def convert(root: pathlib.Path, run_binary: RunBinary) -> Convert:
    def convert(csv: pathlib.Path, output: str, *flags: object) -> Ended:
        return run_binary(
            "beam_jobs.convert",
            *("--format=csv", f"--schema={root / 'schema.json'}", f"--output={root / output}"),
            *(f"--input=train={csv}", *flags),
        )

    return convert


@pytest.fixture(scope="module")
def full(root: pathlib.Path, convert: Convert) -> pathlib.Path:
    ended = convert(taxi_csv(), "full")
    assert ended.code == 0, ended.err
    return root / "full"


def anomalies(dataset: pathlib.Path) -> list[dict]:
    return json.loads((dataset / "anomalies.json").read_text())["anomalies"]


def test_every_row_is_converted(full: pathlib.Path):
    manifest = manifest_lib.load(full)
    assert (manifest.rows_read, manifest.rows_rejected, manifest.records("train")) == (15_002, 0, 15_002)
    assert "anomalies.json" in {file.path for file in manifest.files}


def test_the_column_that_is_empty_but_once_is_reported(full: pathlib.Path):
    [found] = [anomaly for anomaly in anomalies(full) if anomaly["kind"] == "mostly_missing"]
    assert (found["feature"], found["message"]) == ("pickup_census_tract", "missing in 15,001 of 15,002 rows")


def test_statistics_equal_those_of_pyarrow_and_numpy(full: pathlib.Path):
    measured = loading.load(manifest_lib.open_dataset(full))["train"].features
    table = pa.csv.read_csv(taxi_csv(), convert_options=pa.csv.ConvertOptions(strings_can_be_null=True))
    for name in (*NUMBERS, "tips"):
        column, feature = table[name], measured[name]
        values = column.drop_null().to_numpy().astype(np.float64)
        mean = math.fsum(values) / len(values)
        std = math.sqrt(math.fsum((values.astype(np.longdouble) - mean) ** 2) / len(values))
        assert (feature.missing, feature.present) == (column.null_count, len(values))
        assert (feature.numeric.minimum, feature.numeric.maximum) == (values.min(), values.max())
        assert feature.numeric.zeros == np.count_nonzero(values == 0)
        assert feature.numeric.mean == pytest.approx(mean, rel=1e-12)
        assert feature.numeric.mean == pytest.approx(pc.mean(column).as_py(), rel=1e-12)
        assert feature.numeric.std == pytest.approx(std, rel=1e-12, abs=1e-12)
        expected = np.quantile(values, np.arange(33) / 32)
        assert feature.numeric.quantiles == pytest.approx(expected.tolist(), rel=1e-12)
    for name in CATEGORIES:
        counted = table[name].drop_null().value_counts().to_pylist()
        assert dict(measured[name].values.values) == {pair["values"]: pair["counts"] for pair in counted}


def test_a_skewed_copy_drifts(root: pathlib.Path, convert: Convert, full: pathlib.Path):
    header, *rows = taxi_csv().read_text().splitlines()
    fare = header.split(",").index("fare")
    skewed = []
    for number, row in enumerate(rows):
        cells = row.replace("Cash", "Credit Card").split(",") if number % 3 == 0 else row.split(",")
        cells[fare] = str(float(cells[fare]) * 1.5)
        skewed.append(",".join(cells))
    (root / "skewed.csv").write_text("\n".join([header, *skewed]) + "\n")
    ended = convert(root / "skewed.csv", "skewed", f"--baseline={full}", "--severity=drift=error")
    assert ended.code == 2
    assert "error: drift: train, 'fare'" in ended.err
    assert "error: drift: train, 'payment_type'" in ended.err
    assert "most at 'Cash'" in ended.err or "most at 'Credit Card'" in ended.err
    assert ended.err.count("error: drift") == 2
    assert not (root / "skewed").exists()


def test_a_random_half_does_not_drift(root: pathlib.Path, convert: Convert, full: pathlib.Path):
    header, *rows = taxi_csv().read_text().splitlines()
    half = random.Random(0).sample(rows, len(rows) // 2)
    (root / "half.csv").write_text("\n".join([header, *half]) + "\n")
    ended = convert(root / "half.csv", "half", f"--baseline={full}", "--severity=drift=error")
    assert ended.code == 0, ended.err
    found = {anomaly["kind"] for anomaly in anomalies(root / "half")}
    assert found <= {"mostly_missing", "examples", "rounding"}
