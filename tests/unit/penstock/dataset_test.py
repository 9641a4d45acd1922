"""`import penstock`: the batches of a training run, raw ones, and a source that needs no TensorFlow."""

import copy
import hashlib
import os
import pathlib
import pickle
import subprocess
import sys
import textwrap

import keras
import numpy as np
import pytest
import tensorflow as tf

import penstock
from pipeline.base.errors import InputError
from pipeline.data.dataset import shards
from pipeline.data.schema import schema as schema_lib
from pipeline.data.schema.feature_types import Image, Label
from pipeline.data.schema.schema import Schema
from pipeline.training.run import parts, setup
from pipeline.training.run.request import Request
from tests.house.imports import ROOT
from tests.shared import two_cpus  # noqa: F401 - before TensorFlow's devices are used
from tests.shared.parsed import parsed
from tests.shared.small_run import SCHEMA, rows, small_config, write_small_dataset
from tests.shared.tiny_dataset import serialize, write_dataset

BATCH = 16


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    return write_small_dataset(tmp_path_factory.mktemp("penstock") / "1.0.0").directory


def digests(batches: tf.data.Dataset, count: int) -> list[str]:
    """SHA-256 of all that is in each of the first batches."""

    def digest(batch: tuple) -> str:
        flat = [tensor.numpy() for tensor in tf.nest.flatten(batch)]
        content = b"".join(repr((each.shape, each.dtype)).encode() + each.tobytes() for each in flat)
        return hashlib.sha256(content).hexdigest()

    return [digest(batch) for batch in batches.take(count)]


@pytest.mark.slow
def test_batches_are_those_of_a_training_run_from_any_step(directory, tmp_path):
    dataset = penstock.open(directory)
    opened = dataset.train.selection.dataset
    config = small_config()
    config.global_batch, config.seed = BATCH, 7
    request = Request(
        experiment=parsed(config),
        dataset=opened,
        workdir=tmp_path,
        strategy="one_device",
        precision="float32",
    )
    run = parts.build(setup.decide(request))
    for step in (0, 9):
        trained_on = parts.host_batches(run, step, tf.distribute.InputContext())
        ours = dataset.train.batches(BATCH, seed=7, position=step * BATCH)
        assert digests(ours, 20) == digests(trained_on, 20)  # an epoch has 12.5


@pytest.mark.slow
def test_raw_batches_hold_what_the_source_has_at_their_positions(directory):
    train = penstock.open(directory)["train[:90%]"]
    source = train.source(BATCH, seed=7, epochs=2)
    for number, batch in enumerate(train.raw(BATCH, seed=7, position=3 * BATCH).take(12)):
        expected = source.batched(BATCH)[3 + number]
        for name, values in batch.items():
            np.testing.assert_array_equal(values, expected[name])


@pytest.mark.parametrize(
    ("size", "fill", "sizes"),
    [(32, False, [25, 25]), (19, False, [17, 17, 16]), (32, True, [32, 32]), (99, False, [50])],
)
def test_every_row_once_for_an_evaluation(directory, size: int, fill: bool, sizes: list[int]):
    validation = penstock.open(directory).validation
    batches = validation.once(size, fill=fill)
    weights = [weights.numpy() for _, _, weights in batches]
    assert ([len(each) for each in weights], len(batches)) == (sizes, len(sizes))
    assert np.concatenate(weights).sum() == len(validation) == 50


def test_keras_computes_the_loss_of_all_rows_where_the_last_batch_is_smaller(directory):
    validation = penstock.open(directory).validation
    numbers = keras.Input([2], name="numeric")
    model = keras.Model([numbers], keras.layers.Dense(1, kernel_initializer="ones")(numbers))
    model.compile(loss="mse", metrics=["mae"])
    given = validation.once(19).map(lambda inputs, labels, weights: (inputs["numeric"], labels, weights))
    found = model.evaluate(given, return_dict=True, verbose=0)
    [(inputs, labels, _)] = validation.once(50)
    errors = inputs["numeric"].numpy().sum(axis=1) - labels.numpy()
    assert (found["loss"], found["mae"]) == pytest.approx(
        ((errors**2).mean(), np.abs(errors).mean()), rel=1e-5
    )
    assert len(model.predict(given, verbose=0)) == 50


def test_weights_of_examples_reach_fit_and_evaluate(directory):
    dataset = penstock.open(directory)
    assert dataset.train.inputs(example_weights="y").numeric == 1
    numbers = keras.Input([1])
    model = keras.Model(numbers, keras.layers.Dense(1, kernel_initializer="zeros")(numbers))
    model.compile(keras.optimizers.SGD(0.0), "mse", weighted_metrics=["mse"])

    def numeric(batches: tf.data.Dataset) -> tf.data.Dataset:
        return batches.map(lambda inputs, labels, weights: (inputs["numeric"], labels, weights))

    model.fit(numeric(dataset.train.batches(10, example_weights="y")), steps_per_epoch=1, verbose=0)
    found = model.evaluate(
        numeric(dataset.validation.once(19, example_weights="y")), return_dict=True, verbose=0
    )
    written = rows(50, seed=1)
    right = sum(row["y"] for row in written if row["positive"]) / sum(row["y"] for row in written)
    assert found["mse"] == pytest.approx(right, rel=1e-4)


def test_a_damaged_record_ends_a_loop(tmp_path):
    directory = write_small_dataset(tmp_path / "1.0.0").directory
    (shard,) = directory.glob("*validation.tfrecord-00000*")
    damaged = bytearray(shard.read_bytes())
    damaged[-8] ^= 1
    shard.write_bytes(damaged)
    validation = penstock.open(directory).validation
    with pytest.raises(tf.errors.DataLossError):
        list(validation.once(32))
    with pytest.raises(InputError, match=f"{shard.name}: received record 24 at byte"):
        list(validation.source())


@pytest.mark.slow
@pytest.mark.parametrize("replicas", [1, 2])
def test_a_keras_model_learns_with_fit(directory, replicas: int):
    dataset = penstock.open(directory)
    two = tf.config.list_logical_devices("CPU")
    strategy = tf.distribute.MirroredStrategy(two) if replicas > 1 else tf.distribute.get_strategy()
    assert strategy.num_replicas_in_sync == replicas
    with strategy.scope():
        numbers = keras.Input([dataset.train.inputs().numeric], name="numeric")
        categories = keras.Input(
            [len(dataset.train.inputs().cardinalities)], dtype="int32", name="categories"
        )
        logits = keras.layers.Dense(1)(numbers)
        model = keras.Model({"numeric": numbers, "categories": categories}, logits)
        model.compile("adam", keras.losses.BinaryCrossentropy(from_logits=True), weighted_metrics=["auc"])
        model.optimizer.learning_rate = 0.1
    model.fit(dataset.train.batches(20, seed=0), steps_per_epoch=10, epochs=5, verbose=0)
    validation = dataset.validation.once(20, fill=replicas > 1)
    assert model.evaluate(validation, return_dict=True, verbose=0)["auc"] > 0.9


def test_other_peoples_records_are_indexed_and_read(tmp_path):
    written = rows(30, seed=1)
    for number, name in enumerate(("a", "b")):
        with tf.io.TFRecordWriter(str(tmp_path / f"{name}.tfrecord")) as writer:
            for row in written[15 * number : 15 * (number + 1)]:
                writer.write(serialize(SCHEMA, row))
    schema_lib.save(SCHEMA, tmp_path / "schema.json")
    dataset = penstock.index(tmp_path / "*.tfrecord", schema=tmp_path / "schema.json")
    before = (tmp_path / shards.file_name("a.tfrecord")).stat().st_mtime_ns
    assert dataset.splits == {"train": 30}
    expected = np.array([row["x"] for row in written], np.float32)
    np.testing.assert_array_equal(dataset.train.source()[:30]["x"], expected)
    penstock.index(tmp_path / "*.tfrecord", schema=SCHEMA)
    assert (tmp_path / shards.file_name("a.tfrecord")).stat().st_mtime_ns == before
    assert dataset.train.origins() == [None] * 30
    with pytest.raises(InputError, match="received no statistics"):
        dataset.train.batches(10)
    (tmp_path / "a.tfrecord").write_bytes((tmp_path / "b.tfrecord").read_bytes() * 2)
    with pytest.raises(InputError, match="delete the index and run again"):
        penstock.index(tmp_path / "*.tfrecord", schema=SCHEMA)
    (tmp_path / shards.file_name("a.tfrecord")).unlink()
    assert penstock.index(tmp_path / "*.tfrecord", schema=SCHEMA).splits == {"train": 45}


def test_what_is_not_there_is_named(directory):
    dataset = penstock.open(directory)
    assert not hasattr(dataset, "valid")
    with pytest.raises(AttributeError, match=r"no split 'trian'.*'train'"):
        _ = dataset.trian
    with pytest.raises(AttributeError, match="no attribute 'opne'"):
        _ = penstock.opne
    with pytest.raises(InputError, match="received none, with a seed and small records"):
        dataset.train.source(seed=0)
    with pytest.raises(InputError, match="received a file; expected a published dataset"):
        penstock.open(directory / "manifest.json")
    assert ("train" in dataset, list(dataset)) == (True, [*dataset.splits])
    with pytest.raises(TypeError, match="a dataset has splits"):
        dataset[0]


@pytest.mark.parametrize(
    ("call", "problem"),
    [
        (lambda train: train.batches(0), "size: received 0; expected a whole number of at least 1"),
        (lambda train: train.batches(16, position=-1), "position: received -1"),
        (lambda train: train.batches(16, seed=0.5), r"seed: received 0\.5"),
        (lambda train: train.raw("16"), "size: received '16'"),
        (lambda train: train.raw(16, position=16.0), r"position: received 16\.0"),
        (lambda train: train.once(-1), "size: received -1"),
        (lambda train: train.source(-4, seed=0), "size: received -4"),
        (lambda train: train.source(16, seed=0, epochs=0), "epochs: received 0"),
        (lambda train: train.source(epochs=1.5), r"epochs: received 1\.5"),
    ],
)
def test_an_argument_that_is_no_number_of_rows_is_named(directory, call, problem: str):
    with pytest.raises(InputError, match=problem):
        call(penstock.open(directory).train)


def test_an_error_names_the_argument_and_not_a_flag(tmp_path):
    features = (Image(name="image", height=0, width=0), Label(name="kind", task="regression"))
    rows_of = {"train": [{"image": b"", "kind": 0.5}]}
    directory = write_dataset(tmp_path / "1.0.0", Schema(name="photos", features=features), rows_of).directory
    train = penstock.open(directory).train
    with pytest.raises(InputError, match=r"Set image_size=\(224, 224\) or any other size"):
        train.batches(1)
    with pytest.raises(InputError, match=r"image_size: received 224; .*Write image_size=\(224, 224\)"):
        train.batches(1, image_size=224)
    with pytest.raises(InputError, match=r"Correct augmentation=\{'hue': …\}"):
        train.batches(1, augmentation={"hue": 3.0})
    with pytest.raises(InputError, match="Set size=2, train on"):
        train.batches(1, augmentation={"mixup": 1.0}, image_size=(8, 8))


def test_a_folder_in_which_no_index_can_be_written_is_named(tmp_path):
    with tf.io.TFRecordWriter(str(tmp_path / "a.tfrecord")) as writer:
        writer.write(serialize(SCHEMA, rows(1, seed=1)[0]))
    index = tmp_path / shards.file_name("a.tfrecord")
    index.with_name(f"{index.name}.tmp").mkdir()  # where it is written first
    with pytest.raises(InputError, match=f"index {index}: received"):
        penstock.index(tmp_path / "a.tfrecord", schema=SCHEMA)


ALONE = ("numpy", "google_crc32c")  # what reading needs besides Python's own library


def test_a_source_needs_numpy_and_a_checksum_alone(directory):
    program = textwrap.dedent(f"""
        import importlib.abc, sys
        allowed = {{*sys.stdlib_module_names, *{ALONE}, "penstock", "pipeline", "models"}}
        class Refuse(importlib.abc.MetaPathFinder):
            def find_spec(self, name, path=None, target=None):
                if name.partition(".")[0] not in allowed and not name.startswith("_sysconfigdata"):
                    raise ModuleNotFoundError("not here: " + name)
        sys.meta_path.insert(0, Refuse())
        import penstock
        dataset = penstock.open({str(directory)!r})
        source = dataset["train[:50%]+train[60%:]"].source({BATCH}, seed=7, epochs=2)
        print(len(source), sum(float(row["x"]) for row in source))
    """)
    command = [
        sys.executable,
        "-S",
        "-c",
        f"import sys; sys.path[:0] = {[p for p in sys.path if p]!r}\n{program}",
    ]
    found = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
    source = penstock.open(directory)["train[:50%]+train[60%:]"].source(BATCH, seed=7, epochs=2)
    assert found == ["360", str(sum(float(row["x"]) for row in source))]


@pytest.mark.slow  # imports TensorFlow
def test_the_first_look_at_rows_prints_nothing_of_tensorflow(directory):
    program = f"import penstock; print(len(next(iter(penstock.open({str(directory)!r}).train.raw(3)))['x']))"
    command = [sys.executable, "-c", program]
    environment = {name: value for name, value in os.environ.items() if name != "TF_CPP_MIN_LOG_LEVEL"}
    found = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=True)
    assert (found.stdout, found.stderr) == ("3\n", "")


def test_a_dataset_is_copied_and_pickled(directory):
    dataset = penstock.open(directory)
    for other in (copy.deepcopy(dataset), pickle.loads(pickle.dumps(dataset))):
        assert (other.digest, other.splits) == (dataset.digest, dataset.splits)
