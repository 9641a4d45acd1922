"""A feature may be called anything; where TensorFlow cannot take a name, `raw` takes another one."""

import pathlib

import keras
import pytest
import tensorflow as tf

from pipeline.data.preprocessing.preprocess import Preprocess
from pipeline.data.schema.feature_types import Label, Numeric
from pipeline.data.schema.schema import Schema
from pipeline.data.statistics import loading
from pipeline.exporting import export, scoring
from pipeline.exporting.export import Trained
from pipeline.exporting.raw_inputs import raw_names, renamed
from tests.shared.replayed_here import replay_here
from tests.shared.tiny_dataset import write_dataset

UGLY = ("Größe (m²)", "Age", "age", "class", "self", "a b", "a_b", "数", "price.eur", "2024", "-", "m²")


def schema_of(*names: str) -> Schema:
    inputs = tuple(Numeric(name=name) for name in names)
    return Schema(name="ugly", features=(*inputs, Label(name="y", classes=("no", "yes"))))


def test_a_name_that_tensorflow_takes_is_kept():
    names = ("age", "capital-gain", "user.age", "2024", "x_1", "A/b")
    assert renamed(schema_of(*names)) == {}


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (("Größe (m²)", "数"), {"Größe (m²)": "Groe_m2", "数": "input"}),
        (("marital status", "class", "self"), {"marital status": "marital_status", "class": "class_2"}),
        (("a b", "a_b"), {"a b": "a_b_1"}),
        (("Age", "age"), {"age": "age_2"}),
        (("x.y", "x/y", "x y", "x_y_2"), {"x/y": "x_y_3", "x y": "x_y_4"}),
    ],
)
def test_any_other_gets_one_of_ascii_letters(names, expected):
    given = renamed(schema_of(*names))
    assert expected.items() <= given.items()
    assert len({name.lower() for name in raw_names(schema_of(*names)).values()}) == len(names)


@pytest.mark.slow
@pytest.mark.parametrize("layout", ["rows", "blocks"])
def test_a_model_of_features_with_such_names_is_exported_and_scored(
    layout: str, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
):
    schema = schema_of(*UGLY)
    rows = [dict.fromkeys(UGLY, float(i)) | {"Age": i / 2, "y": i % 2} for i in range(20)]
    dataset = write_dataset(tmp_path / "1.0.0", schema, {"train": rows, "test": rows}, layout=layout)
    preprocess = Preprocess(schema, loading.load(dataset)["train"])
    numeric = keras.Input((preprocess.inputs.numeric,), name="numeric")
    golden = write_dataset(tmp_path / "golden", schema, {"train": rows})
    trained = Trained(
        model=keras.Model({"numeric": numeric}, keras.layers.Dense(1)(numeric)),
        preprocess=preprocess,
        schema=schema,
        statistics_path=dataset.directory / "statistics.pb",
        golden_path=pathlib.Path(golden.shard_paths("train")[0]),
        dataset_digest=dataset.manifest.digest,
        step=1,
    )
    # A process of its own, with TensorFlow, would be most of the time.
    replay_here(monkeypatch)
    document = export.export_model(trained, tmp_path / "model")
    assert document["renamed_in_raw"] == renamed(schema)
    assert scoring.score(tmp_path / "model", dataset, split="test", batch=7)["examples"] == 20
    raw = tf.saved_model.load(str(tmp_path / "model")).signatures["raw"]
    inputs = {given: tf.constant([1.0]) for given in raw_names(schema).values()}
    assert raw(**inputs)["probabilities"].shape == [1, 2]
