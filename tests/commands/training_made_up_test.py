"""A model and a task of one's own: which tables ask for what, and a run with both from start to end."""

import math

import keras
import numpy as np
import pytest
import tensorflow as tf
from ml_collections import ConfigDict

from models.registry import MODELS
from pipeline.base.errors import InputError
from pipeline.data.dataset.manifest import Dataset
from pipeline.data.preprocessing.preprocess import ModelInputs
from pipeline.data.schema.feature_types import LABEL_TASKS, Label, LabelTask, Numeric
from pipeline.data.schema.schema import Schema
from pipeline.exporting import export, scoring
from pipeline.training.engine.precision import Precision
from pipeline.training.experiment import restore
from pipeline.training.experiment.model import build_model
from pipeline.training.run import run
from pipeline.training.state import workdir as files
from pipeline.training.tasks.registry import TASKS, task_of
from pipeline.training.tasks.task import LOSS, Metric, Task
from tests.shared.parsed import parsed
from tests.shared.replayed_here import replay_here
from tests.shared.small_run import small_config
from tests.shared.tiny_dataset import write_dataset


class Count(Task):
    """How often something happens: Poisson regression. The logit is the logarithm of the rate."""

    metrics = (LOSS, Metric(key="bias", name="mean error"))

    def logits(self, label: Label) -> int:
        return 1

    def losses(self, labels: tf.Tensor, logits: tf.Tensor) -> tf.Tensor:
        return tf.exp(logits[:, 0]) - labels * logits[:, 0]

    def predictions(self, logits: tf.Tensor) -> tf.Tensor:
        return tf.exp(logits[:, 0])

    def accumulator(self, label: Label) -> "CountErrors":
        return CountErrors()


class CountErrors:
    def __init__(self) -> None:
        self._examples, self._loss, self._error = 0, 0.0, 0.0

    def update(self, labels: np.ndarray, predictions: np.ndarray) -> None:
        self._examples += len(labels)
        self._loss += float(np.sum(predictions - labels * np.log(predictions)))
        self._error += float(np.sum(predictions - labels))

    def result(self) -> dict:
        return {"loss": self._loss / self._examples, "bias": self._error / self._examples}


def linear(*, numeric: int, outputs: int, slope: float) -> keras.Model:
    inputs = keras.Input((numeric,), name="numeric")
    start = keras.initializers.Constant(slope)
    outputs_of = keras.layers.Dense(outputs, dtype="float32", kernel_initializer=start)
    return keras.Model([inputs], outputs_of(inputs))


def counts(rows: int, *, seed: int) -> list[dict]:
    draw = np.random.default_rng(seed)
    return [{"x": x, "n": float(draw.poisson(math.exp(x)))} for x in draw.normal(size=rows).tolist()]


def build(**model) -> keras.Model:
    config = small_config()
    config.model = ConfigDict(model)
    sizes = ModelInputs(image_shape=None, numeric=1, cardinalities=(), sequences={})
    schema = Schema(name="any", features=(Label(name="n", task="regression"),))
    precision = Precision(policy="float32", reason="")
    return build_model(parsed(config).model, schema=schema, inputs=sizes, precision=precision)


@pytest.fixture
def label_rules(monkeypatch):
    monkeypatch.setitem(
        LABEL_TASKS, "count", LabelTask(dtype="float32", classes=range(1), expected="none", output="rate")
    )


@pytest.fixture
def both(label_rules, monkeypatch):
    monkeypatch.setitem(TASKS, "count", Count())
    monkeypatch.setitem(MODELS, "linear", linear)


@pytest.fixture
def dataset(both, tmp_path) -> Dataset:
    schema = Schema(name="counts", features=(Numeric(name="x"), Label(name="n", task="count")))
    splits = {"train": counts(200, seed=0), "validation": counts(20, seed=1), "test": counts(33, seed=2)}
    return write_dataset(tmp_path / "1.0.0", schema, splits)


def test_a_label_of_an_unknown_task_names_the_table_of_labels():
    with pytest.raises(InputError, match=r"received 'count'; .*LABEL_TASKS in .*schema/feature_types\.py"):
        Label(name="n", task="count")


def test_a_label_that_cannot_be_trained_names_the_table_of_tasks(label_rules):
    with pytest.raises(InputError, match=r"received 'count'; .*Add its object to TASKS in .*registry\.py"):
        task_of(Label(name="n", task="count"))


def test_an_unknown_model_names_the_table_of_models():
    with pytest.raises(InputError, match=r"received 'linear'; .*add the model to MODELS in models/registry"):
        build(name="linear")


def test_a_model_that_asks_for_more_than_there_is_names_it(both):
    with pytest.raises(InputError, match=r"of 'linear': received no value of slope; expected .* outputs=1"):
        build(name="linear")


@pytest.mark.slow
def test_supplied_both_train_evaluate_and_export(dataset, request_for, tmp_path, config, monkeypatch):
    config.model = ConfigDict({"name": "linear", "slope": 0.5})
    config.train.steps = 30
    request = request_for(tmp_path / "run", strategy="mirrored")
    metrics = run.train(request)
    assert (metrics["task"], metrics["examples"]) == ("count", 33)
    last = (tmp_path / "run" / "history.jsonl").read_text().splitlines()[-1]
    assert '"loss"' in last
    assert "accuracy" not in last
    page = (tmp_path / "run" / "report.html").read_text()
    assert "test mean error" in page

    # A fresh process does not know this test's task.
    replay_here(monkeypatch)
    export.export_model(export.trained(restore.restore_model(tmp_path / "run")), tmp_path / "model")
    scored = scoring.score(tmp_path / "model", dataset, split="test", batch=8)
    assert scored["loss"] == pytest.approx(metrics["loss"], rel=1e-5)
    served = tf.saved_model.load(str(tmp_path / "model")).signatures["raw"](x=tf.constant([0.0]))
    assert list(served) == ["rate"]
    assert files.read_json(tmp_path / "model" / "export.json")["task"] == "count"
