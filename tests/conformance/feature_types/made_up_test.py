"""A feature kind of one's own: which tables ask for what, and a dataset with it from raw data to a model."""

import itertools
import json
import pathlib
from collections.abc import Callable, Mapping

import numpy as np
import pyarrow as pa
import pytest
import tensorflow as tf

from beam_jobs.cells import typed
from beam_jobs.checks import records, validate
from beam_jobs.checks.anomalies import Policy
from beam_jobs.checks.dataset import verify
from beam_jobs.checks.validate import Rules
from beam_jobs.conversion import dataset, plan
from beam_jobs.conversion.job import Conversion, convert
from beam_jobs.launch.run import Run
from beam_jobs.schema.features import propose_feature
from beam_jobs.schema.profiles import ColumnProfile
from beam_jobs.sources.formats import open_source
from beam_jobs.sources.source import Input
from pipeline.base.errors import InputError
from pipeline.data.dataset import blocks
from pipeline.data.dataset import manifest as manifest_lib
from pipeline.data.dataset.manifest import Dataset
from pipeline.data.dataset.selection import select
from pipeline.data.dataset.statistics import FeatureStatistics, SplitStatistics
from pipeline.data.preprocessing.preprocess import Preprocess
from pipeline.data.reading.parsing import parse_rows
from pipeline.data.reading.windows import stored_rows
from pipeline.data.schema import schema as schema_lib
from pipeline.data.schema.feature_types import FEATURE_TYPES, FeatureTypeTable, Label, MissingFeatureTypeError
from pipeline.data.schema.schema import Schema
from pipeline.data.statistics import accumulators, loading
from pipeline.report import html
from pipeline.training.baselines import table
from pipeline.training.replay.format import format_value
from pipeline.training.report.data import feature_table
from pipeline.training.run import run
from pipeline.training.run.request import Request
from tests.conformance.feature_types.interval import Interval, entries
from tests.conformance.feature_types.tables import kind_tables
from tests.shared.parsed import parsed
from tests.shared.small_run import small_config
from tests.shared.tiny_dataset import serialize

SPAN = Interval(name="span")
SCHEMA = Schema(name="spans", features=(SPAN, Label(name="wide", classes=("no", "yes"))))
STATISTICS = SplitStatistics(
    examples=2, features={"span": FeatureStatistics(name="span", dtype="float32", present=2, missing=0)}
)

# What each table asks of whoever adds a kind.
ASKED = {
    "beam_jobs.cells.typed": "Cells, with `parse` of (feature, RawColumn, Problems) to an Arrow array",
    "beam_jobs.conversion.dataset": "Metadata; its defaults say type and shape alone",
    "beam_jobs.schema.features": "a function of ColumnProfile to the feature, or to None if the column is "
    "of another kind",
    "pipeline.data.statistics.accumulators": "a function of the feature to an empty Gathered",
    "beam_jobs.checks.validate": "checks of (split, feature, FeatureStatistics, Policy) to anomalies, "
    "possibly none: ()",
    "beam_jobs.checks.records": "a function of the feature to Numbers or, for a string feature, Strings",
    "pipeline.data.dataset.blocks": "a function of the feature to its Field; it raises InputError if there "
    "is no fixed width",
    "pipeline.data.preprocessing.preprocess": "InModel, with `inputs` of (the features of the type, "
    "SplitStatistics) to Inputs",
    "pipeline.training.baselines.table": "Columns, with their `kind` and `read` of (feature, values [n, …], "
    "SplitStatistics) to them",
    "pipeline.training.replay.format": "a function (feature, value [*feature.shape]) → text",
    "pipeline.training.report.data": "FeatureFormat, with `detail` of the feature to a word",
}

# Where a room first asks for the kind. `propose_feature` asks only the kinds that it has.
FIRST_USE: Mapping[str, Callable[[], object]] = {
    "beam_jobs.cells.typed": lambda: typed.parse(SPAN, pa.array(["1..2"])),
    "beam_jobs.conversion.dataset": lambda: dataset.schema_proto(SCHEMA),
    "pipeline.data.statistics.accumulators": lambda: accumulators.gathered_of(SPAN),
    "beam_jobs.checks.validate": lambda: validate.conformance_anomalies(
        {"train": STATISTICS}, Schema(name="spans", features=(SPAN,)), Policy()
    ),
    "beam_jobs.checks.records": lambda: records.conformance_problems([RECORD], SCHEMA),
    "pipeline.data.dataset.blocks": lambda: blocks.geometry(SCHEMA),
    "pipeline.data.preprocessing.preprocess": lambda: Preprocess(SCHEMA, STATISTICS),
    "pipeline.training.baselines.table": lambda: table.is_tabular(SCHEMA),
    "pipeline.training.replay.format": lambda: format_value(SPAN, np.float32([1, 2])),
    "pipeline.training.report.data": lambda: feature_table(STATISTICS, SCHEMA),
}
ROWS = list(itertools.product(range(-1, 9), range(10, 30)))
RECORD = serialize(SCHEMA, {"span": [1.0, 2.0], "wide": 1})


@pytest.fixture(scope="module")
def tables() -> dict[str, FeatureTypeTable]:
    return kind_tables()


@pytest.fixture
def intervals(tables, monkeypatch) -> None:
    """Intervals in the registry and in every table."""
    monkeypatch.setitem(FEATURE_TYPES, "interval", Interval)
    for where, entry in entries(tables).items():
        monkeypatch.setitem(tables[where].entries, Interval, entry)


def test_every_table_says_what_it_lacks(tables):
    lacking = {where: table.lacks(Interval) for where, table in tables.items()}
    assert lacking.keys() == ASKED.keys()
    for where, message in lacking.items():
        assert message.startswith(f"{where}, the table of ")
        assert message.endswith(f" Add an entry for Interval: {ASKED[where]}.")


@pytest.mark.parametrize("where", FIRST_USE)
def test_a_room_that_meets_the_kind_names_its_table(where):
    with pytest.raises(MissingFeatureTypeError, match=f"^{where}, .*Add an entry for Interval: "):
        FIRST_USE[where]()


def test_a_schema_file_names_the_kinds_that_there_are():
    with pytest.raises(InputError, match="field 'kind': received interval; expected one of numeric, "):
        schema_lib.from_json(schema_lib.to_json(SCHEMA))


def test_supplied_it_is_declared_proposed_and_described(intervals):
    assert schema_lib.from_json(schema_lib.to_json(SCHEMA)) == SCHEMA
    assert propose_feature(ColumnProfile(name="span", counts={"1..2": 2, "0..3": 1})) == SPAN
    assert 'name: "span"' in dataset.schema_proto(SCHEMA)
    assert "interval · low..high [2]" in html.blocks([feature_table(STATISTICS, SCHEMA)])


def test_supplied_bad_cells_are_told(intervals):
    column = typed.parse(SPAN, pa.array(["1..2", "", "one", "1..2..3", "5..1000"]))
    assert column.values[0].as_py() == [1.0, 2.0]
    assert column.problems == {
        1: "missing",
        2: "not low..high",
        3: "not a number",
        4: "above the highest of 100.0",
    }


@pytest.mark.parametrize("layout", ["rows", "blocks"])
def test_supplied_it_is_converted_verified_and_read(intervals, layout, tmp_path):
    dataset = converted(ROWS, layout, tmp_path)
    anomalies = json.loads((dataset.directory / "anomalies.json").read_text())["anomalies"]
    assert {found["message"] for found in anomalies} == {"an interval starts below zero"}
    assert verify(dataset.directory).problems == ()

    features, preprocessed = read(dataset)
    assert sorted(map(tuple, features.tolist())) == sorted(ROWS)
    np.testing.assert_array_equal(preprocessed["numeric"], features)


@pytest.mark.slow
def test_supplied_it_is_trained_on(intervals, tmp_path):
    """Takes some seconds, because a model is built and traced."""
    dataset = converted(ROWS, "rows", tmp_path)
    config = small_config()
    config.train.steps = 5
    request = Request(
        dataset=dataset,
        workdir=tmp_path / "run",
        strategy="one_device",
        precision="float32",
        experiment=parsed(config),
        baseline=True,
    )
    assert 0 <= run.train(request)["accuracy"] <= 1
    assert (tmp_path / "run" / "baselines.json").exists()


def test_supplied_a_record_that_does_not_conform_is_found(intervals):
    wrong = serialize(SCHEMA, {"span": [1.0, 101.0], "wide": 1})
    problem = "feature 'span' is outside of -inf … 100"
    assert records.conformance_problems([RECORD, wrong], SCHEMA) == {1: problem}


def converted(rows: list[tuple[int, int]], layout: str, directory: pathlib.Path) -> Dataset:
    """A dataset of these intervals in all splits."""
    raw = directory / "spans.csv"
    lines = [f"{low}..{high},{('no', 'yes')[high - low > 15]}" for low, high in rows]
    raw.write_text("\n".join(["span,wide", *lines]) + "\n")
    source = open_source("csv")
    inputs = [Input(location=str(raw))]
    fractions = plan.parse_fractions("train=0.6,validation=0.2,test=0.2")
    conversion = Conversion(
        source=source,
        schema=SCHEMA,
        plan=plan.make_plan(inputs, source, SCHEMA, fractions=fractions, shard_bytes=1 << 20, layout=layout),
        rules=Rules(),
        run=Run(runner="FnApiRunner", beam_flags=(), max_rejected_fraction=0.0),
        command="",
    )
    convert(conversion, output=str(directory / "1.0.0"))
    return manifest_lib.open_dataset(directory / "1.0.0")


def read(dataset: Dataset) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """Intervals [rows, 2] of the whole dataset, raw and as the model gets them."""
    statistics = loading.load(dataset)["train"]
    selection = select(dataset, "train+validation+test")
    batches = [parse_rows(rows, dataset.schema)[0]["span"] for _, rows in stored_rows(selection)]
    features = {"span": tf.concat(batches, axis=0)}
    return features["span"].numpy(), Preprocess(dataset.schema, statistics)(features)
