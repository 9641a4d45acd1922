"""An export is whole, verified, needs only TensorFlow, and serves what was trained."""

import dataclasses
import json
import pathlib
import shutil
import subprocess
import sys

import keras
import numpy as np
import pytest
import tensorflow as tf
from sklearn.metrics import roc_auc_score

from pipeline.base import documents
from pipeline.base.errors import InputError
from pipeline.base.files import hold_directory
from pipeline.data.dataset import records
from pipeline.data.dataset.manifest import Dataset
from pipeline.data.dataset.records import open_export
from pipeline.data.schema.feature_types import Numeric
from pipeline.data.schema.schema import Schema
from pipeline.exporting import export, replay, scoring
from pipeline.exporting.export import Trained
from tests.shared.people import ROWS, SCHEMA, small_model, write_people
from tests.shared.tiny_dataset import write_dataset

ONLY_TENSORFLOW = """
import json, sys
import tensorflow as tf
raw = tf.saved_model.load(sys.argv[1]).signatures["raw"]
works, kinds = tf.constant(["Private", "  Private "]), tf.constant(["a", "a"])
out = raw(age=tf.constant([30.0, 30.0]), work=works, kind=kinds)
print(json.dumps(out["probabilities"].numpy().tolist()))
assert "pipeline" not in sys.modules
"""


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    return write_people(tmp_path_factory.mktemp("people") / "1.0.0")


@pytest.fixture(scope="module")
def trained(dataset: Dataset) -> Trained:
    return small_model(dataset)


@pytest.fixture(scope="module")
def exported(trained: Trained, tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    output = tmp_path_factory.mktemp("exports") / "1"
    export.export_model(trained, output)
    return output


def test_an_export_is_whole_and_leaves_no_staging_directory(exported):
    document = open_export(exported)
    assert document["step"] == 7
    assert {"saved_model.pb", "schema.json", "statistics.pb", "golden.npz"} <= set(document["files"])
    assert [path.name for path in exported.parent.iterdir()] == ["1"]


def test_of_two_exports_to_one_place_the_second_is_told_of_the_first(trained, tmp_path):
    (tmp_path / ".1.staging").mkdir()
    (tmp_path / ".1.staging" / "saved_model.pb").write_text("half")
    other = hold_directory(tmp_path / ".1.staging", thing="another")
    with (
        other,
        pytest.raises(InputError, match=r"--output=.*1: received a directory that process \d+ of host"),
    ):
        export.export_model(trained, tmp_path / "1")
    assert (tmp_path / ".1.staging" / "saved_model.pb").exists()


def test_a_damaged_list_of_files_is_named(exported, tmp_path):
    text = (exported / "export.json").read_text()
    (tmp_path / "export.json").write_text(text.replace('"step": 7', '"step": 6'))
    with pytest.raises(
        InputError, match=r"model file .*export\.json: received other content than was exported"
    ):
        open_export(tmp_path)


def test_an_export_names_files_of_its_directory_alone(tmp_path):
    document = documents.with_digest({"format": records.FORMAT, "files": {"../elsewhere": "0"}})
    (tmp_path / "export.json").write_text(json.dumps(document))
    with pytest.raises(
        InputError, match=r"export\.json: received a file '../elsewhere' outside of the directory"
    ):
        open_export(tmp_path)


def test_an_export_of_another_format_is_refused(tmp_path):
    document = documents.with_digest({"format": "penstock.export/2", "files": {}})
    (tmp_path / "export.json").write_text(json.dumps(document))
    with pytest.raises(InputError, match=r"export\.json: received .*format 'penstock\.export/2'"):
        open_export(tmp_path)


def test_signatures_are_float32_named_and_batched(exported):
    signatures = tf.saved_model.load(str(exported)).signatures
    for name in ("serving_default", "raw"):
        assert signatures[name].structured_outputs["probabilities"].dtype == tf.float32
        assert signatures[name].structured_outputs["probabilities"].shape.as_list() == [None, 2]
    inputs = signatures["raw"].structured_input_signature[1]
    assert inputs["age"] == tf.TensorSpec([None], tf.float32, name="age")
    assert inputs["work"] == tf.TensorSpec([None], tf.string, name="work")


@pytest.mark.slow
def test_a_process_with_only_tensorflow_serves_raw_strings_as_the_data_spells_them(exported):
    done = subprocess.run(
        [sys.executable, "-c", ONLY_TENSORFLOW, str(exported)],
        capture_output=True,
        text=True,
        check=False,
        cwd=exported,
    )
    assert done.returncode == 0, done.stderr
    clean, as_spelled = json.loads(done.stdout)
    assert clean == as_spelled
    assert sum(clean) == pytest.approx(1.0)


def test_scoring_the_export_equals_scoring_the_model(exported, trained, dataset):
    result = scoring.score(exported, dataset, split="test", batch=7)
    features = {
        "age": tf.constant([row["age"] for row in ROWS[60:]]),
        "work": tf.constant([row["work"] for row in ROWS[60:]]),
        "kind": tf.constant([row["kind"] for row in ROWS[60:]]),
    }
    logits = trained.model(trained.preprocess(features)).numpy()[:, 0]
    expected = np.mean((logits > 0) == [row["rich"] for row in ROWS[60:]])
    assert result["examples"] == 40
    assert result["accuracy"] == pytest.approx(expected)


def test_examples_weigh_by_a_number_of_the_dataset(exported, tmp_path):
    weights = np.random.default_rng(0).integers(0, 9, len(ROWS)).astype(float).tolist()
    rows = [row | {"w": weight} for row, weight in zip(ROWS, weights, strict=True)]
    schema = dataclasses.replace(SCHEMA, features=(*SCHEMA.features, Numeric(name="w")))
    weighted = write_dataset(tmp_path / "1.0.0", schema, {"train": rows})
    found = scoring.score(exported, weighted, split="train", batch=7, weighted_by="w")
    raw = tf.saved_model.load(str(exported)).signatures["raw"]
    asked = {name: tf.constant([row[name] for row in ROWS]) for name in ("age", "work", "kind")}
    scores, labels = raw(**asked)["probabilities"].numpy()[:, 1], [row["rich"] for row in ROWS]
    assert found["weighted_by"] == "w"
    assert found["auc"] == pytest.approx(roc_auc_score(labels, scores), abs=1e-3)
    expected = roc_auc_score(labels, scores, sample_weight=weights)
    assert found["weighted_auc"] == pytest.approx(expected, abs=1e-3)
    assert found["auc"] != pytest.approx(expected, abs=5e-3)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("agee", r"--example_weights: received 'agee'; expected .* numeric: age\. Did you mean 'age'\?"),
        ("age", r"--example_weights='age': received nan in .*, record .*; expected a finite number from 0"),
    ],
)
def test_another_column_weighs_nothing(exported, dataset, name, message):
    with pytest.raises(InputError, match=message):
        scoring.score(exported, dataset, split="test", batch=7, weighted_by=name)


def test_replay_notices_a_single_changed_bit(exported, tmp_path):
    copy = shutil.copytree(exported, tmp_path / "copy")
    golden = dict(np.load(copy / "golden.npz"))
    golden["probabilities"].view(np.uint32)[0, 0] ^= 1
    np.savez(copy / "golden.npz", **golden)
    with pytest.raises(InputError, match=r"signature 'serving_default'.*bit for bit"):
        replay.replay(copy)


@pytest.mark.slow
def test_a_model_that_answers_otherwise_in_a_fresh_process_is_not_published(trained, tmp_path):
    class Clock(keras.layers.Layer):
        def call(self, values: tf.Tensor) -> tf.Tensor:
            return values + tf.cast(tf.math.floormod(tf.timestamp(), 1.0), tf.float32)

    restless = dataclasses.replace(
        trained, model=keras.Model(trained.model.inputs, Clock()(trained.model.outputs[0]))
    )
    begun: list[str] = []
    with pytest.raises(InputError, match=r"differ by up to .*nothing was written"):
        export.export_model(restless, tmp_path / "out" / "1", begins=begun.append)
    assert list((tmp_path / "out").iterdir()) == []
    assert (begun[0], begun[-1]) == ("the SavedModel", "replay in a fresh process")


def test_an_existing_export_is_never_touched(exported, trained):
    with pytest.raises(InputError, match="a path that exists"):
        export.export_model(trained, exported)


def test_a_changed_file_is_named(exported, tmp_path):
    copy = shutil.copytree(exported, tmp_path / "copy")
    (copy / "saved_model.pb").write_bytes(b"")
    with pytest.raises(InputError, match=r"saved_model\.pb.*as exported"):
        open_export(copy)


@pytest.mark.parametrize("content", ["{", "{}", "[1]", '{"files": 1}'])
def test_an_export_that_tells_of_no_files_is_refused(content, tmp_path):
    (tmp_path / "export.json").write_text(content)
    with pytest.raises(InputError, match=r"export\.json: received other content than was exported"):
        open_export(tmp_path)


def test_a_dataset_of_another_schema_is_refused(exported, tmp_path):
    other = Schema(name="people", features=SCHEMA.features[1:])
    dataset = write_dataset(
        tmp_path / "1.0.0", other, {"test": [{"work": "x", "kind": "a", "rich": 0}]}, shards=1
    )
    assert scoring.score(exported, dataset, split="test", batch=1)["examples"] == 1  # age may be missing
    other = Schema(name="people", features=(SCHEMA.features[0], *SCHEMA.features[2:]))
    renamed = Schema(name="people", features=(*other.features, Numeric(name="work")))
    dataset = write_dataset(
        tmp_path / "2.0.0", renamed, {"test": [{"work": 1.0, "kind": "a", "age": 1.0, "rich": 0}]}, shards=1
    )
    with pytest.raises(InputError, match=r"feature 'work' is float32\[\], not string\[\]"):
        scoring.score(exported, dataset, split="test", batch=1)
