"""A run that begins with weights of something else: what is frozen stays, and the file is needed once."""

import dataclasses
import pathlib
import shutil

import keras
import numpy as np
import pytest
import tensorflow as tf

from pipeline.base.errors import InputError
from pipeline.base.files import sha256
from pipeline.data.dataset.manifest import Dataset
from pipeline.exporting import export
from pipeline.training.engine.checkpoint import load_tensors
from pipeline.training.engine.precision import FLOAT32
from pipeline.training.experiment import model as model_lib
from pipeline.training.experiment import restore
from pipeline.training.parity import subject
from pipeline.training.replay.replay import Replay
from pipeline.training.run import parts, run, setup
from pipeline.training.run.request import Request
from pipeline.training.state import run_record
from tests.shared.parsed import parsed
from tests.shared.small_run import rows, small_config, write_small_dataset


def normalised(*, numeric: int, cardinalities: tuple[int, ...], outputs: int, width: int = 4) -> keras.Model:
    """A backbone with a BatchNormalization, and a head."""
    numbers = keras.Input((numeric,), name="numeric")
    ids = keras.Input((len(cardinalities),), dtype="int32", name="categories")
    x = keras.layers.Dense(width, "tanh", name="stem")(numbers)
    x = keras.layers.Dropout(0.1)(keras.layers.BatchNormalization(name="norm")(x))
    kinds = keras.layers.Flatten()(keras.layers.Embedding(sum(cardinalities), 2, name="kinds")(ids))
    x = keras.layers.Concatenate()([x, kinds])
    return keras.Model([numbers, ids], keras.layers.Dense(outputs, dtype="float32", name="logits")(x))


@pytest.fixture(autouse=True)
def _model(monkeypatch):
    monkeypatch.setitem(model_lib.MODELS, "normalised", normalised)


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    return write_small_dataset(tmp_path_factory.mktemp("dataset") / "1.0.0")


@pytest.fixture(scope="module")
def first(dataset: Dataset, tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """The working directory of a finished run, which keeps averages."""
    workdir = tmp_path_factory.mktemp("first") / "run"
    with pytest.MonkeyPatch.context() as patched:
        patched.setitem(model_lib.MODELS, "normalised", normalised)
        run.train(request(dataset, workdir))
    return workdir


def request(dataset: Dataset, workdir: pathlib.Path, **changes: object) -> Request:
    keras.utils.clear_session(free_memory=False)  # as in a process of its own
    config = small_config()
    config.model = {"name": "normalised"}
    config.train.steps = 20
    config.update_from_flattened_dict(changes)
    return Request(
        dataset=dataset,
        workdir=workdir,
        strategy="one_device",
        precision="float32",
        experiment=parsed(config),
    )


def begun(asked: Request) -> parts.Run:
    """The run before its first step."""
    return parts.take_first_weights(parts.build(setup.decide(asked)))


def by_path(model: keras.Model) -> dict[str, np.ndarray]:
    return {each.path: np.asarray(each) for each in model.weights}


FROZEN = {"train.frozen": ("stem/*", "norm/*")}


@pytest.mark.slow
def test_the_first_step_has_the_weights_of_the_source_bit_for_bit(first, dataset, tmp_path):
    expected = by_path(restore.restore_model(first).model)
    built = begun(request(dataset, tmp_path / "run", **{"init.source": str(first)}, **FROZEN))
    found = by_path(built.model)
    assert len(found) == 9
    assert all(np.array_equal(found[path], expected[path]) for path in found)
    assert "begins     with all of the model's 9 weights from " in "\n".join(built.setup.announcement)
    averaged = {each.path for each in built.averages.variables}
    assert averaged == {"kinds/embeddings", "logits/kernel", "logits/bias"}


@pytest.mark.slow
def test_a_wider_layer_begins_anew_and_the_rest_does_not(first, dataset, tmp_path):
    built = begun(
        request(
            dataset,
            tmp_path / "run",
            **{"init.source": str(first), "model": {"name": "normalised", "width": 5}},
        )
    )
    assert built.setup.record.init["loaded"] == ["kinds/embeddings", "logits/bias"]
    assert built.setup.record.init["not_loaded"]["norm/gamma"] == "[4] there, [5] here"


@pytest.fixture(scope="module")
def frozen(first: pathlib.Path, dataset: Dataset, tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """A finished run whose backbone is the first one's, frozen."""
    workdir = tmp_path_factory.mktemp("frozen") / "run"
    with pytest.MonkeyPatch.context() as patched:
        patched.setitem(model_lib.MODELS, "normalised", normalised)
        run.train(second(dataset, workdir, first))
    return workdir


def second(dataset: Dataset, workdir: pathlib.Path, source: pathlib.Path) -> Request:
    rates = {"optimizer.rates": (("logits/*", 3.0),), "optimizer.learning_rate": 0.02}
    return request(dataset, workdir, **{"init.source": str(source)}, **FROZEN, **rates)


@pytest.mark.slow
def test_a_frozen_backbone_and_its_statistics_end_as_they_began(first, frozen):
    before, after = (by_path(restore.restore_model(each).model) for each in (first, frozen))
    for path in ("stem/kernel", "stem/bias", "norm/gamma", "norm/moving_mean", "norm/moving_variance"):
        assert np.array_equal(before[path], after[path]), path
    assert not np.array_equal(before["logits/kernel"], after["logits/kernel"])
    saved = load_tensors(frozen / "checkpoints" / "step-00000020")
    assert sum(name.startswith("ema/") for name in saved) == 3
    assert sum(name.startswith("optimizer/") for name in saved) == 1 + 2 * 3  # of the step, and two moments


@pytest.mark.slow
def test_what_was_loaded_stands_in_run_json_and_on_the_page(first, frozen):
    init = run_record.read(frozen / "run.json").init
    manifest = first / "checkpoints" / "step-00000020" / "manifest.json"
    assert (init["source"], init["digest"]) == (str(first), sha256(manifest))
    assert (len(init["loaded"]), init["not_loaded"], init["not_used"]) == (9, {}, [])
    page = (frozen / "report.html").read_text()
    assert "First weights: 9 of 9 loaded" in page
    assert f"{first}, SHA-256 {sha256(manifest)[:12]}" in page


class _KilledError(BaseException):  # no Exception: the model is of this file, too, and would be blamed
    """What takes the place of kill -9 inside one process."""


def _killer(steps: int) -> keras.callbacks.Callback:
    class Killer(keras.callbacks.Callback):
        def on_train_batch_end(self, batch: int, logs: dict | None = None) -> None:
            if int(np.asarray(self.model.optimizer.iterations)) >= steps:
                raise _KilledError

    return Killer()


# Before the first checkpoint, and after it.
@pytest.mark.slow
@pytest.mark.parametrize("steps", [3, 10])
def test_a_killed_run_ends_as_if_it_had_not_been_though_the_source_is_gone(
    first, frozen, dataset, tmp_path, monkeypatch, steps
):
    gone = shutil.copytree(first, tmp_path / "first")
    with monkeypatch.context() as changed, pytest.raises(_KilledError):
        changed.setattr(run.callbacks, "build", lambda specs, **rest: [_killer(steps)])
        run.train(second(dataset, tmp_path / "run", gone))
    shutil.rmtree(gone)
    run.train(second(dataset, tmp_path / "run", gone))
    for name in ("checkpoints/step-00000020/variables.data-00000-of-00001", "evaluation.json"):
        assert (tmp_path / "run" / name).read_bytes() == (frozen / name).read_bytes()


@pytest.mark.slow
def test_other_weights_are_another_run(first, frozen, dataset, tmp_path):
    workdir = shutil.copytree(frozen, tmp_path / "run")
    model = restore.restore_model(first).model
    model.save_weights(tmp_path / "a.weights.h5")
    with pytest.raises(
        InputError, match=r"--config\.init\.source: received .*a\.weights\.h5, SHA-256 .*; expected"
    ):
        run.train(second(dataset, workdir, tmp_path / "a.weights.h5"))


@pytest.mark.slow
def test_later_commands_never_need_the_source(first, dataset, tmp_path, monkeypatch, warm_python):
    monkeypatch.setattr(export.sys, "executable", str(warm_python))
    gone = shutil.copytree(first, tmp_path / "first")
    run.train(second(dataset, tmp_path / "run", gone))
    shutil.rmtree(gone)
    restored = restore.restore_model(tmp_path / "run")
    export.export_model(export.trained(restored), tmp_path / "export")
    assert len(restored.new_model(FLOAT32).trainable_variables) == 3  # parity's twin
    found = Replay(tmp_path / "run", checkpoint=0).step(0, examples=4)
    before, train = restore.restore_model(first), rows(200, seed=0)
    some = [train[each.record.number] for each in found.examples]
    features = {name: tf.constant([row[name] for row in some]) for name in ("x", "y", "kind")}
    logits = before.model(before.preprocess(features), training=False).numpy()[:, 0]
    labels = np.array([row["positive"] for row in some])
    expected = np.log1p(np.exp(np.where(labels == 1, -logits, logits)))
    np.testing.assert_allclose([each.loss for each in found.examples], expected, rtol=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["file", "export"])
def test_a_file_and_an_export_give_what_the_run_gives(
    kind, first, dataset, tmp_path, monkeypatch, warm_python
):
    monkeypatch.setattr(export.sys, "executable", str(warm_python))
    restored = restore.restore_model(first)
    if kind == "file":
        restored.model.save(tmp_path / "model.keras")
    else:
        export.export_model(export.trained(restored), tmp_path / "export")
    source = tmp_path / ("model.keras" if kind == "file" else "export")
    built = begun(request(dataset, tmp_path / "run", **{"init.source": str(source)}))
    assert all(map(np.array_equal, built.model.get_weights(), restored.model.get_weights()))


@pytest.mark.slow
def test_unfreezing_is_a_second_run_that_begins_with_the_first(frozen, dataset, tmp_path):
    expected = by_path(restore.restore_model(frozen).model)
    asked = request(dataset, tmp_path / "run", **{"init.source": str(frozen)})
    assert all(np.array_equal(value, expected[path]) for path, value in by_path(begun(asked).model).items())
    run.train(request(dataset, tmp_path / "run", **{"init.source": str(frozen)}))
    after = by_path(restore.restore_model(tmp_path / "run").model)
    assert not any(
        np.array_equal(after[path], expected[path]) for path in ("stem/kernel", "norm/moving_mean")
    )


@pytest.mark.slow
def test_two_replicas_begin_with_the_same_weights(first, dataset, tmp_path):
    asked = request(dataset, tmp_path / "run", **{"init.source": str(first)})
    built = begun(dataclasses.replace(asked, strategy="mirrored", logical_devices=2))
    for own, before in zip(built.model.weights, restore.restore_model(first).model.weights, strict=True):
        for value in built.setup.strategy.experimental_local_results(own.value):
            assert np.array_equal(value.numpy(), np.asarray(before))


@pytest.mark.slow
def test_a_comparison_before_there_is_a_run_begins_with_them_too(first, dataset, tmp_path):
    experiment = request(dataset, tmp_path / "run", **{"init.source": str(first)}, **FROZEN).experiment
    found = subject.of_experiment(experiment, dataset).model()
    assert all(map(np.array_equal, found.get_weights(), restore.restore_model(first).model.get_weights()))
    assert len(found.trainable_variables) == 3
