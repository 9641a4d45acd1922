"""Callbacks are called as `Model.fit` calls them: the same hooks in the same order, with the same numbers."""

import keras
import pytest

from pipeline.data.dataset.selection import select
from pipeline.data.input.batches import evaluation_batches, training_batches
from pipeline.data.reading.sharding import Share
from pipeline.data.statistics import loading
from pipeline.training.experiment import data
from pipeline.training.experiment.model import build_model, build_preprocess
from pipeline.training.run import run
from pipeline.training.run.setup import decide

HOOKS = [name for name in dir(keras.callbacks.Callback) if name.startswith("on_") and "predict" not in name]


class Recorder(keras.callbacks.Callback):
    """Keeps each call: the hook, its number, its logs."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[tuple] = []

    def __getattribute__(self, name: str) -> object:
        if name not in HOOKS:
            return super().__getattribute__(name)
        return lambda *arguments, **keywords: self._keep(name, *arguments, **keywords)

    def _keep(self, hook: str, number: int | dict | None = None, logs: dict | None = None) -> None:
        logs, number = (number, None) if isinstance(number, dict) else (logs, number)
        self.calls.append((hook, number, dict(logs) if logs else None))

    # CallbackList looks whether a class has these: without them it would call it in another thread.
    def on_train_batch_end(self, batch, logs=None): ...

    def on_test_batch_end(self, batch, logs=None): ...

    def on_test_end(self, logs=None): ...


@pytest.fixture
def even_request(request_for, tmp_path, config):
    """200 and 50 rows in whole batches, three epochs, and the same numbers in every process."""
    config.global_batch = 20
    config.evaluation.global_batch = 25
    config.model.dropout = 0.0
    config.train.steps_per_loop = 1
    config.train.log_every_steps = config.train.checkpoint_every_steps = 1000
    config.optimizer.name = "sgd"
    config.optimizer.ema = 0.0
    config.optimizer.schedule = "constant"
    config.optimizer.warmup_steps, config.optimizer.warmup_part = 0, 0.0
    config.optimizer.weight_decay = 0.0
    return request_for(tmp_path / "run")


def fit(request) -> list[tuple]:
    """What a real `fit` calls, on the same model and the same batches."""
    setup = decide(request)
    experiment, dataset, recorder = setup.experiment, setup.dataset, Recorder()
    preprocess = build_preprocess(experiment.data, dataset.schema, loading.load(dataset)["train"])
    model = build_model(
        experiment.model, schema=dataset.schema, inputs=preprocess.inputs, precision=setup.precision
    )
    plan = data.read_plan(experiment.data, setup.training_data, share=Share(global_batch=20))
    validation = evaluation_batches(select(dataset, "validation"), preprocess, share=Share(global_batch=25))
    model.compile(
        optimizer=keras.optimizers.SGD(experiment.optimizer.learning_rate, momentum=0.9),
        loss=keras.losses.BinaryCrossentropy(from_logits=True),
        metrics=[keras.metrics.BinaryAccuracy(threshold=0.0, name="accuracy")],
    )
    model.fit(
        training_batches(plan, preprocess),
        steps_per_epoch=10,
        epochs=3,
        validation_data=validation.map(lambda inputs, labels, mask: (inputs, labels)),
        validation_steps=2,  # or `fit` begins a third batch, which is not there
        callbacks=[recorder],
        verbose=0,
    )
    return recorder.calls


def ours(request, monkeypatch) -> list[tuple]:
    recorder = Recorder()
    monkeypatch.setattr(run.callbacks, "build", lambda specs, **settings: [recorder])
    run.train(request)
    return recorder.calls


@pytest.mark.slow
def test_the_hooks_are_those_of_fit(even_request, monkeypatch):
    theirs = fit(even_request)
    assert {name for name, *_ in theirs} >= {"on_train_end", "on_test_batch_end", "on_epoch_begin"}
    mine = ours(even_request, monkeypatch)
    assert [call[:2] for call in mine] == [call[:2] for call in theirs]
    for (hook, number, logs), (_, _, expected) in zip(mine, theirs, strict=True):
        named = {key: value for key, value in (logs or {}).items() if not key.endswith("auc")}
        assert named == pytest.approx(expected or {}, rel=1e-3), (hook, number)
