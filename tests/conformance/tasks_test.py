"""Every registered task: its losses, predictions and metrics against NumPy's and scikit-learn's.

A new task needs a `Reference` in REFERENCES: plain functions that compute the same in another way.
"""

import dataclasses
import json
from collections.abc import Callable, Mapping

import numpy as np
import pytest
import scipy.special
import tensorflow as tf
from sklearn import metrics as sklearn_metrics

from pipeline.base.errors import InputError
from pipeline.data.schema.feature_types import LABEL_TASKS, Label, LabelGroup
from pipeline.training.tasks.registry import TASKS, EvaluationMetrics, task_of

EXAMPLES, BATCH = 103, 16  # the last batch holds 7
CLASSES = tuple("abcdefghijkl")  # enough for a top-5 accuracy


@dataclasses.dataclass(frozen=True, kw_only=True)
class Reference:
    """A label of the task, and NumPy functions of labels [n, …], logits or predictions, and weights [n]."""

    label: Label
    losses: Callable[[np.ndarray, np.ndarray], np.ndarray]
    predictions: Callable[[np.ndarray], np.ndarray]
    metrics: Callable[[np.ndarray, np.ndarray, np.ndarray], Mapping[str, float]]


def log_loss(labels, probabilities, weights) -> float:
    classes = np.arange(probabilities.shape[1])
    return sklearn_metrics.log_loss(labels, probabilities, sample_weight=weights, labels=classes)


def accuracy(labels, probabilities, weights) -> float:
    return sklearn_metrics.accuracy_score(labels, probabilities.argmax(axis=1), sample_weight=weights)


def of_target(key, metric, labels, values, weights) -> dict[str, float]:
    """The metric of each target, `a` and `b`."""
    found = metric(labels, values, sample_weight=weights, multioutput="raw_values")
    return {f"{key}_a": found[0], f"{key}_b": found[1]}


REFERENCES = {
    "binary": Reference(
        label=Label(name="y", classes=("no", "yes")),
        losses=lambda y, logits: np.log1p(np.exp(np.where(y == 1, -1, 1) * logits[:, 0])),
        predictions=lambda logits: scipy.special.softmax(
            np.stack([0 * logits[:, 0], logits[:, 0]], axis=1), axis=1
        ),
        metrics=lambda y, p, weights: {
            "loss": log_loss(y, p, weights),
            "accuracy": accuracy(y, p, weights),
            "auc": sklearn_metrics.roc_auc_score(y, p[:, 1], sample_weight=weights),
        },
    ),
    "multiclass": Reference(
        label=Label(name="y", task="multiclass", classes=CLASSES),
        losses=lambda y, logits: -scipy.special.log_softmax(logits, axis=1)[np.arange(len(y)), y],
        predictions=lambda logits: scipy.special.softmax(logits, axis=1),
        metrics=lambda y, p, weights: {
            "loss": log_loss(y, p, weights),
            "accuracy": accuracy(y, p, weights),
            "top_5_accuracy": sklearn_metrics.top_k_accuracy_score(
                y, p, k=5, sample_weight=weights, labels=np.arange(len(CLASSES))
            ),
        },
    ),
    "regression": Reference(
        label=Label(name="y", task="regression"),
        losses=lambda y, logits: (logits[:, 0] - y) ** 2,
        predictions=lambda logits: logits[:, 0],
        metrics=lambda y, values, weights: {
            "loss": sklearn_metrics.mean_squared_error(y, values, sample_weight=weights),
            "rmse": sklearn_metrics.root_mean_squared_error(y, values, sample_weight=weights),
            "mae": sklearn_metrics.mean_absolute_error(y, values, sample_weight=weights),
            "r2": sklearn_metrics.r2_score(y, values, sample_weight=weights),
        },
    ),
    "multilabel": Reference(
        label=Label(name="y", task="multilabel", classes=CLASSES),
        losses=lambda y, logits: np.log1p(np.exp(np.where(y == 1, -1, 1) * logits)).mean(axis=1),
        predictions=scipy.special.expit,
        metrics=lambda y, p, weights: {
            "loss": np.mean(
                [
                    sklearn_metrics.log_loss(y[:, at], p[:, at], sample_weight=weights, labels=[0, 1])
                    for at in range(len(CLASSES))
                ]
            ),
            "accuracy": sklearn_metrics.accuracy_score(y, p > 0.5, sample_weight=weights),
            "auc": sklearn_metrics.roc_auc_score(y, p, average="macro", sample_weight=weights),
            "micro_f1": sklearn_metrics.f1_score(y, p > 0.5, average="micro", sample_weight=weights),
            "macro_f1": sklearn_metrics.f1_score(y, p > 0.5, average="macro", sample_weight=weights),
        },
    ),
    "multitarget": Reference(
        label=LabelGroup(name="a, b", task="multitarget", parts=("a", "b")),
        losses=lambda y, logits: ((logits - y) ** 2).mean(axis=1),
        predictions=lambda logits: logits,
        metrics=lambda y, values, weights: {
            "loss": 1 - sklearn_metrics.r2_score(y, values, sample_weight=weights),
            "rmse": sklearn_metrics.root_mean_squared_error(y, values, sample_weight=weights),
            "mae": sklearn_metrics.mean_absolute_error(y, values, sample_weight=weights),
            "r2": sklearn_metrics.r2_score(y, values, sample_weight=weights),
            **of_target("rmse", sklearn_metrics.root_mean_squared_error, y, values, weights),
            **of_target("mae", sklearn_metrics.mean_absolute_error, y, values, weights),
            **of_target("r2", sklearn_metrics.r2_score, y, values, weights),
        },
    ),
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Batch:
    """Random examples: labels [n, …], logits float32 [n, logits], weights float32 [n], each 0 or 1."""

    labels: np.ndarray
    logits: np.ndarray
    weights: np.ndarray

    def __getitem__(self, rows: slice) -> "Batch":
        return Batch(labels=self.labels[rows], logits=self.logits[rows], weights=self.weights[rows])


def examples(label: Label) -> Batch:
    draw = np.random.default_rng(0)
    size = (EXAMPLES, *label.shape)
    most = 2 if label.shape else len(label.classes)
    labels = draw.integers(0, most, size) if label.classes else draw.normal(size=size)
    return Batch(
        labels=labels.astype("int32" if label.classes else "float32"),
        logits=draw.normal(size=(EXAMPLES, task_of(label).logits(label)), scale=2.0).astype("float32"),
        weights=draw.integers(0, 2, EXAMPLES).astype("float32"),
    )


@pytest.fixture(params=TASKS)
def reference(request: pytest.FixtureRequest) -> Reference:
    assert request.param in REFERENCES, f"task '{request.param}' has no entry in REFERENCES of this test"
    return REFERENCES[request.param]


def test_every_task_has_rules_for_its_label():
    assert set(TASKS) == set(LABEL_TASKS), "TASKS (training/tasks/registry.py) and LABEL_TASKS differ"


def test_a_task_without_an_object_is_refused(monkeypatch):
    monkeypatch.setitem(LABEL_TASKS, "ranking", LABEL_TASKS["regression"])
    with pytest.raises(InputError, match=r"received 'ranking'; .*Add its object to TASKS in .*registry\.py"):
        task_of(Label(name="y", task="ranking"))


def test_losses(reference):
    task, batch = task_of(reference.label), examples(reference.label)
    losses = task.losses(tf.constant(batch.labels), tf.constant(batch.logits))
    assert (losses.dtype, losses.shape) == (tf.float32, [EXAMPLES])
    np.testing.assert_allclose(losses, reference.losses(batch.labels, batch.logits), rtol=1e-4, atol=1e-5)


def test_hits_are_the_right_answers(reference):
    task, batch = task_of(reference.label), examples(reference.label)
    hits = task.hits(tf.constant(batch.labels), tf.constant(batch.logits))
    assert (hits.dtype, hits.shape) == (tf.float32, [EXAMPLES])
    if task.has_accuracy:
        expected = reference.metrics(batch.labels, reference.predictions(batch.logits), np.ones(EXAMPLES))
        assert np.mean(hits) == pytest.approx(expected["accuracy"])


def test_predictions(reference):
    task, batch = task_of(reference.label), examples(reference.label)
    predictions = task.predictions(tf.constant(batch.logits))
    assert (predictions.dtype, predictions.shape[0]) == (tf.float32, EXAMPLES)
    np.testing.assert_allclose(predictions, reference.predictions(batch.logits), rtol=1e-5, atol=1e-6)


def test_metrics_over_weighted_batches_with_a_remainder(reference):
    task, batch = task_of(reference.label), examples(reference.label)
    metrics = EvaluationMetrics(reference.label)
    for start in range(0, EXAMPLES, BATCH):
        part = batch[start : start + BATCH]
        metrics.update(part.labels, task.predictions(tf.constant(part.logits)).numpy(), part.weights)
    result = metrics.result()
    assert json.loads(json.dumps(result)) == result
    assert result["examples"] == batch.weights.sum()
    expected = reference.metrics(batch.labels, reference.predictions(batch.logits), batch.weights)
    assert {key: result[key] for key in expected} == pytest.approx(expected, rel=1e-5)
    assert {metric.key for metric in task.metrics} <= set(expected), "a metric of the report is not tested"


def test_weighted_metrics_are_scikit_learns_with_sample_weight(reference):
    task, batch = task_of(reference.label), examples(reference.label)
    if not task.has_weighted_metrics:
        pytest.skip("the task has none")
    weights = np.random.default_rng(1).exponential(100.0, EXAMPLES).astype("float32")
    weights[::5] = 0.0
    metrics = EvaluationMetrics(reference.label)
    for start in range(0, EXAMPLES, BATCH):
        part, own = batch[start : start + BATCH], weights[start : start + BATCH]
        metrics.update(part.labels, task.predictions(tf.constant(part.logits)).numpy(), part.weights, own)
    result, predictions = metrics.result(), reference.predictions(batch.logits)
    weighted = reference.metrics(batch.labels, predictions, batch.weights * weights)
    plain = reference.metrics(batch.labels, predictions, batch.weights)
    assert {key: result[f"weighted_{key}"] for key in weighted} == pytest.approx(weighted, rel=1e-5)
    assert {key: result[key] for key in plain} == pytest.approx(plain, rel=1e-5)
    assert set(metrics.numbers()) == {*plain, *(f"weighted_{key}" for key in plain)}


def test_where_nothing_weighs_nothing_is_said_of_it(reference):
    batch = examples(reference.label)[:BATCH]
    metrics = EvaluationMetrics(reference.label)
    predictions = task_of(reference.label).predictions(tf.constant(batch.logits)).numpy()
    metrics.update(batch.labels, predictions, weights=np.zeros(len(batch.labels)))
    assert not [name for name in metrics.result() if name.startswith("weighted_")]


def test_no_examples_give_no_numbers(reference):
    assert "loss" not in EvaluationMetrics(reference.label).result()
