"""Golden records are a few of the training split, and decide whether a model is the one that was saved."""

import os

import numpy as np
import pytest
import tensorflow as tf

from beam_jobs.sources.csv import CsvFiles
from pipeline.base.errors import InputError
from pipeline.data.dataset.selection import select
from pipeline.data.preprocessing.preprocess import LabelScale, Preprocess
from pipeline.data.reading import parsing
from pipeline.data.schema.feature_types import Categorical, Label, Numeric
from pipeline.data.schema.schema import Group, Schema
from pipeline.data.statistics import loading
from pipeline.training.state import golden
from tests.shared.conversions import converted

SAVED = np.array([[4.0], [-20.0]])


def test_records_are_written_once_and_read_as_model_inputs(dataset, tmp_path):
    path = tmp_path / "golden.tfrecord"
    golden.write(path, select(dataset, "train"))
    before = path.stat().st_mtime_ns
    golden.write(path, select(dataset, "train"))
    assert path.stat().st_mtime_ns == before
    assert [path.name for path in tmp_path.iterdir()] == ["golden.tfrecord"]
    preprocess = Preprocess(dataset.schema, loading.load(dataset)["train"])
    assert golden.inputs(path, dataset.schema, preprocess)["numeric"].shape == (golden.RECORDS, 2)


def test_records_are_prepared_in_a_graph(dataset, tmp_path):
    golden.write(tmp_path / "golden.tfrecord", select(dataset, "train"))
    eager = []

    def prepare(features: dict[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        eager.append(tf.executing_eagerly())
        return features

    assert golden.inputs(tmp_path / "golden.tfrecord", dataset.schema, prepare)
    assert eager == [False]


def test_rounding_of_another_machine_passes():
    golden.check(saved=SAVED, now=SAVED * 1.01, checkpoint="ckpt-1")


@pytest.mark.parametrize("now", [-SAVED, SAVED + 3.0, SAVED * np.nan])
def test_other_decisions_do_not(now):
    with pytest.raises(InputError, match=r"checkpoint ckpt-1: received a model whose predictions differ"):
        golden.check(saved=SAVED, now=now, checkpoint="ckpt-1")


# Of 8 houses in billions, of 8 times in millionths of a second, and of 8 years.
UNITS = [(0.0, 1e9), (0.0, 1e-6), (2000.0, 5.0)]


@pytest.mark.parametrize(("mean", "spread"), UNITS)
def test_the_unit_of_a_regression_decides_nothing(mean, spread):
    saved = mean + spread * np.linspace(-1.5, 1.5, 8)[:, None]
    scale = LabelScale(mean=mean, spread=spread)
    golden.check(saved=saved, now=saved + 0.1 * spread, checkpoint="ckpt-1", scale=scale)
    for other in (saved + 0.2 * spread, saved[::-1], np.full_like(saved, mean)):
        with pytest.raises(InputError, match=r"checkpoint ckpt-1: received a model whose predictions differ"):
            golden.check(saved=saved, now=other, checkpoint="ckpt-1", scale=scale)


def test_a_new_model_that_predicts_about_0_is_judged_by_the_labels():
    saved = np.full((8, 1), 1e-3)
    golden.check(saved=saved, now=-saved, checkpoint="ckpt-1", scale=LabelScale(mean=0.0, spread=1.0))


@pytest.mark.parametrize("damage", [lambda content: content[:40] + b"?" + content[41:], lambda content: b""])
def test_damaged_records_are_refused(dataset, tmp_path, damage):
    path = tmp_path / "golden.tfrecord"
    golden.write(path, select(dataset, "train"))
    path.write_bytes(damage(path.read_bytes()))
    preprocess = Preprocess(dataset.schema, loading.load(dataset)["train"])
    with pytest.raises(InputError, match=r"golden\.tfrecord: received records that are damaged"):
        golden.inputs(path, dataset.schema, preprocess)


def test_a_pipe_in_place_of_the_records_is_not_waited_for(dataset, tmp_path):
    os.mkfifo(tmp_path / "golden.tfrecord")
    preprocess = Preprocess(dataset.schema, loading.load(dataset)["train"])
    with pytest.raises(InputError, match=r"golden\.tfrecord: received records that are damaged"):
        golden.inputs(tmp_path / "golden.tfrecord", dataset.schema, preprocess)


@pytest.mark.parametrize("layout", ["rows", "blocks"])
def test_of_groups_the_first_rows_are_kept_as_records_of_one_row(tmp_path, layout):
    schema = Schema(
        name="s",
        features=(
            Numeric(name="x"),
            Categorical(name="kind", vocabulary=("a", "b")),
            Label(name="y", task="ranking"),
        ),
        group=Group(column="query", length=5),
    )
    rows = [f"q{number % 7},{number},{'ab'[number % 2]},{number % 3}" for number in range(23)]
    (tmp_path / "raw.csv").write_text("\n".join(["query,x,kind,y", *rows]) + "\n")
    dataset = converted(
        str(tmp_path / "raw.csv"),
        tmp_path / "out",
        source=CsvFiles(),
        schema=schema,
        layout=layout,
        split="train",
    )
    path = tmp_path / "golden.tfrecord"
    golden.write(path, select(dataset, "train"))
    records = list(tf.data.TFRecordDataset(str(path)))
    stored = tf.io.parse_example(records, parsing.parsing_spec(schema.of_rows))
    columns = (stored[name].numpy().tolist() for name in ("x", "kind", "y"))
    found = {(x, kind.decode(), y) for x, kind, y in zip(*columns, strict=True)}
    assert len(found) == golden.RECORDS
    assert found <= {(float(number), "ab"[number % 2], number % 3) for number in range(23)}
    preprocess = Preprocess(schema, loading.load(dataset)["train"])
    assert golden.inputs(path, schema, preprocess)["numeric"].shape == (golden.RECORDS, 1)
