"""Files of an export for other runtimes: what they predict, what they take, and what is refused."""

import dataclasses
import importlib.util
import json
import pathlib
import subprocess
import sys
from collections.abc import Callable, Sequence

import keras
import numpy as np
import pytest
import tensorflow as tf

from models.resnet import resnet
from models.wide_deep import wide_deep
from pipeline.base.errors import InputError
from pipeline.data.dataset.records import open_export
from pipeline.data.preprocessing.preprocess import Preprocess
from pipeline.data.schema.feature_types import Image, Label, Numeric, Text
from pipeline.data.schema.schema import Schema
from pipeline.data.statistics import loading
from pipeline.exporting import export, keras_file, runtimes
from pipeline.exporting.export import Trained
from pipeline.exporting.formats import TOLERANCE
from tests.shared.people import small_model, write_people
from tests.shared.replayed_here import replay_here
from tests.shared.tiny_dataset import write_dataset

FORMATS = tuple(runtimes.RUNTIMES)
ROWS, SIDE = 40, 8
WORDS = ["a", "film", "that", "is", "good", "bad", "long", "dull", "and", "warm"]
TRAIN_ON = """
import sys, keras, numpy as np
model = keras.saving.load_model(sys.argv[1])
model.compile("sgd", keras.losses.BinaryCrossentropy(from_logits=True))
inputs = {each.name: np.ones((8, *each.shape[1:]), each.dtype) for each in model.inputs}
losses = model.fit(inputs, np.ones((8, 1)), epochs=5, verbose=0).history["loss"]
assert losses[-1] < losses[0], losses
assert not {"pipeline", "models"} & set(sys.modules)
"""


@pytest.fixture(autouse=True)
def _in_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process with TensorFlow of its own would be most of the time; export_test.py has one."""
    replay_here(monkeypatch)


def needs_converters() -> None:
    for module in ("ai_edge_litert", "onnx", "onnxruntime", "tf2onnx"):
        pytest.importorskip(module, reason="needs requirements/export.txt")


def columns(schema: Schema, rows: Sequence[dict], directory: pathlib.Path, build: Callable) -> Trained:
    """A model that `build` makes of its inputs, with random weights: no layer must be silent."""
    keras.utils.set_random_seed(1)
    dataset = write_dataset(directory / "1.0.0", schema, {"train": rows}, shards=1)
    preprocess = Preprocess(schema, loading.load(dataset)["train"])
    model = build(preprocess.inputs)
    for weight in model.weights:
        weight.assign(keras.random.normal(weight.shape, stddev=0.2))
    return Trained(
        model=model,
        preprocess=preprocess,
        schema=schema,
        statistics_path=dataset.directory / "statistics.pb",
        golden_path=pathlib.Path(dataset.shard_paths("train")[0]),
        dataset_digest=dataset.manifest.digest,
        step=1,
    )


def tabular(inputs) -> keras.Model:
    return wide_deep(
        numeric=inputs.numeric, cardinalities=inputs.cardinalities, sequences=inputs.sequences, outputs=1
    )


def numbers(directory: pathlib.Path) -> Trained:
    schema = Schema(
        name="numbers", features=(Numeric(name="a"), Numeric(name="b"), Label(name="y", classes=("n", "y")))
    )
    draws = np.random.default_rng(0).normal(size=(ROWS, 2))
    rows = [{"a": float(a), "b": float(b), "y": i % 2} for i, (a, b) in enumerate(draws)]
    return columns(schema, rows, directory, tabular)


def text(directory: pathlib.Path) -> Trained:
    schema = Schema(
        name="text",
        features=(Text(name="review", length=6, buckets=64), Label(name="y", classes=("n", "y"))),
    )
    draws = np.random.default_rng(0).choice(WORDS, (ROWS, 8))
    rows = [{"review": " ".join(words[: 1 + i % 8]), "y": i % 2} for i, words in enumerate(draws)]
    return columns(schema, rows, directory, tabular)


def images(directory: pathlib.Path) -> Trained:
    schema = Schema(
        name="dots",
        features=(Image(name="image", height=SIDE, width=SIDE), Label(name="y", classes=("n", "y"))),
    )
    pixels = np.random.default_rng(0).integers(0, 256, (ROWS, SIDE, SIDE, 3), np.uint8)
    rows = [{"image": tf.io.encode_png(each).numpy(), "y": i % 2} for i, each in enumerate(pixels)]

    def build(inputs) -> keras.Model:
        return resnet(
            image_shape=inputs.image_shape,
            image_rescaling=inputs.image_rescaling,
            outputs=1,
            widths=(8, 16),
            blocks_per_stage=1,
        )

    return columns(schema, rows, directory, build)


@pytest.mark.slow
@pytest.mark.parametrize("make", [numbers, text, images])
def test_a_model_predicts_in_other_runtimes_what_tensorflow_does(make, tmp_path, capsys):
    needs_converters()
    document = export.export_model(make(tmp_path), tmp_path / "model", formats=FORMATS)
    for name in FORMATS:
        file = document["formats"][name]
        assert file["largest_difference"] <= TOLERANCE
        assert file["file"] in open_export(tmp_path / "model")["files"]
        with capsys.disabled():
            takes, off = file["takes"], file["largest_difference"]
            print(f"{make.__name__:<8} {name:<7} takes {takes:<9} {off:.1e} of the largest number off")


@pytest.mark.slow
def test_a_bfloat16_model_with_text_takes_prepared_inputs_and_computes_in_float32(tmp_path):
    needs_converters()
    trained = small_model(write_people(tmp_path / "1.0.0"))
    document = export.export_model(trained, tmp_path / "model", formats=["onnx"])
    file = document["formats"]["onnx"]
    assert file["takes"] == "prepared"
    assert file["without_preprocessing"] == "only TensorFlow prepares 'work', 'kind'"
    assert 0 < file["largest_difference_from_saved_model"] < 8 * 2.0**-8
    session = importlib.import_module("onnxruntime").InferenceSession(str(tmp_path / "model/model.onnx"))
    assert {each.name: each.shape[1:] for each in session.get_inputs()} == {
        name: shape[1:] for name, (_, shape) in file["inputs"].items()
    }


class Rare(keras.layers.Layer):
    """An operation that neither format has."""

    def call(self, values: tf.Tensor) -> tf.Tensor:
        return tf.math.bessel_i0e(values)


@pytest.mark.slow
@pytest.mark.parametrize("name", FORMATS)
def test_a_model_with_an_operation_that_a_format_lacks_is_refused_and_nothing_is_written(name, tmp_path):
    needs_converters()
    trained = numbers(tmp_path)
    rare = keras.Model(trained.model.inputs, Rare()(trained.model.outputs[0]))
    with pytest.raises(InputError, match=rf"--format={name}: received a model with the operation.*BesselI0e"):
        export.export_model(dataclasses.replace(trained, model=rare), tmp_path / "out/model", formats=[name])
    assert list((tmp_path / "out").iterdir()) == []


def test_an_unknown_format_and_a_package_that_is_not_installed_are_named(monkeypatch):
    with pytest.raises(InputError, match="--format: received 'tflite'; expected some of litert, onnx"):
        runtimes.require(["tflite"], setting="--format")
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(InputError, match=r"without onnx, onnxruntime, tf2onnx.*requirements/export\.txt"):
        runtimes.require(["onnx"], setting="--format")


def test_arrays_of_any_name_reach_the_process_that_runs_a_model(tmp_path):
    arrays = {"file": np.arange(3), "allow_pickle": np.ones((2, 1), "float32"), "a/b": np.zeros(0)}
    runtimes.save(tmp_path / "some.npz", arrays)
    found = runtimes.load(tmp_path / "some.npz")
    assert list(found) == list(arrays)
    for name, values in arrays.items():
        np.testing.assert_array_equal(found[name], values, strict=True)


# --- model.keras


@pytest.mark.slow
def test_plain_keras_loads_the_model_in_a_fresh_process_and_trains_on(tmp_path):
    model = small_model(write_people(tmp_path / "1.0.0")).model
    assert keras_file.save(model, tmp_path) == ""
    command = [sys.executable, "-c", TRAIN_ON, str(tmp_path / "model.keras")]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert done.returncode == 0, done.stderr


def test_the_places_of_a_models_own_classes_are_found_in_its_file(tmp_path):
    model = wide_deep(numeric=2, cardinalities=(3, 4), sequences={}, outputs=1, hidden=(4,))
    assert keras_file.save(model, tmp_path) == ""
    assert keras_file.custom_objects(tmp_path / "model.keras") == {
        "penstock>OffsetEmbedding": "models.embedding:OffsetEmbedding",
        "penstock>PeriodicFeatures": "models.features:PeriodicFeatures",
    }
    inputs = {"numeric": np.ones((2, 2), "float32"), "categories": np.ones((2, 2), "int32")}
    loaded = keras_file.load(tmp_path / "model.keras")
    np.testing.assert_array_equal(loaded(inputs), model(inputs))


class Secretive(keras.layers.Layer):
    """A layer that Keras cannot write down."""

    def __init__(self, function: Callable) -> None:
        super().__init__()
        self.function = function

    def call(self, values: tf.Tensor) -> tf.Tensor:
        return self.function(values)


def test_a_model_that_keras_cannot_write_down_is_exported_without_the_file(tmp_path):
    trained = small_model(write_people(tmp_path / "1.0.0"))
    outputs = Secretive(lambda values: values * 2)(trained.model.outputs[0])
    model = keras.Model({each.name: each for each in trained.model.inputs}, outputs)
    document = export.export_model(dataclasses.replace(trained, model=model), tmp_path / "model")
    assert "left_out" in document["formats"]["keras"], json.dumps(document["formats"])
    assert not (tmp_path / "model" / "model.keras").exists()
