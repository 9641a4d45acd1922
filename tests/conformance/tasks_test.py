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
from pipeline.data.schema.feature_types import LABEL_TASKS, Label, LabelGroup, TokenLabel
from pipeline.training.tasks.objective import Objective
from pipeline.training.tasks.registry import TASKS, EvaluationMetrics, task_of

EXAMPLES, BATCH = 103, 16  # the last batch holds 7
CLASSES = tuple("abcdefghijkl")  # enough for a top-5 accuracy
ITEMS = tuple(map(str, range(110)))  # enough for a recall@100


@dataclasses.dataclass(frozen=True, kw_only=True)
class Reference:
    """A label of the task, and NumPy functions of labels [n, …], logits or predictions, and weights [n]."""

    label: Label
    losses: Callable[[np.ndarray, np.ndarray], np.ndarray]
    predictions: Callable[[np.ndarray], np.ndarray]
    answers: Callable[["Batch"], np.ndarray] | None = None  # of an evaluation; None: the predictions
    metrics: Callable[[np.ndarray, np.ndarray, np.ndarray], Mapping[str, float]]

    def answered(self, batch: "Batch") -> np.ndarray:
        return self.answers(batch) if self.answers else self.predictions(batch.logits)


def log_loss(labels, probabilities, weights) -> float:
    classes = np.arange(probabilities.shape[1])
    return sklearn_metrics.log_loss(labels, probabilities, sample_weight=weights, labels=classes)


def accuracy(labels, probabilities, weights) -> float:
    return sklearn_metrics.accuracy_score(labels, probabilities.argmax(axis=1), sample_weight=weights)


def of_target(key, metric, labels, values, weights) -> dict[str, float]:
    """The metric of each target, `a` and `b`."""
    found = metric(labels, values, sample_weight=weights, multioutput="raw_values")
    return {f"{key}_a": found[0], f"{key}_b": found[1]}


def log_probabilities_of_tokens(batch: "Batch") -> np.ndarray:
    """Token by token: of each that is predicted and of the likeliest one, [n, length, 2]."""
    found = np.zeros((*batch.labels.shape, 2))
    logs = scipy.special.log_softmax(batch.logits.astype("float64"), axis=-1)
    for row, at in np.argwhere(batch.labels >= 0):
        before = logs[row, at - 1]
        found[row, at] = before[batch.labels[row, at]], before.max()
    return found


def losses_of_rows(labels: np.ndarray, logits: np.ndarray) -> np.ndarray:
    own = log_probabilities_of_tokens(Batch(labels=labels, logits=logits, weights=np.ones(len(labels))))
    return -own[..., 0].sum(axis=1) / np.maximum(1, (labels >= 0).sum(axis=1))


def metrics_of_tokens(labels: np.ndarray, answers: np.ndarray, weights: np.ndarray) -> dict[str, float]:
    counts = (labels >= 0) * weights[:, None]
    loss = -(answers[..., 0] * counts).sum() / counts.sum()
    right = ((answers[..., 0] == answers[..., 1]) * counts).sum()
    perplexity = np.exp(loss)
    return {
        "loss": loss,
        "perplexity": perplexity,
        "bits_per_byte": np.log2(perplexity),
        "accuracy": right / counts.sum(),
        "tokens": counts.sum(),
    }


def ranks_of_items(batch: "Batch") -> np.ndarray:
    """Of the chosen item its log-probability, and how many others score higher, and as high: [n, 3]."""
    logs = scipy.special.log_softmax(batch.logits.astype("float64"), axis=1)
    own = batch.logits[np.arange(len(batch.labels)), batch.labels][:, None]
    higher, equal = (batch.logits > own).sum(axis=1), (batch.logits == own).sum(axis=1) - 1
    return np.stack([logs[np.arange(len(logs)), batch.labels], higher, equal], axis=1)


def metrics_of_ranks(labels: np.ndarray, found: np.ndarray, weights: np.ndarray) -> dict[str, float]:
    """Scores that lead to these ranks, for scikit-learn; none of them are equal."""
    chosen, scores = np.zeros((len(labels), len(ITEMS))), np.zeros((len(labels), len(ITEMS)))
    for row, rank in enumerate(found[:, 1].astype(int)):
        chosen[row, 0] = 1
        scores[row, 1:] = np.where(np.arange(1, len(ITEMS)) <= rank, 2.0, 0.0) + np.linspace(
            0, 0.5, len(ITEMS) - 1
        )
        scores[row, 0] = 1.0
    recalls = {
        f"recall_at_{k}": sklearn_metrics.top_k_accuracy_score(
            np.zeros(len(labels)), scores, k=k, sample_weight=weights, labels=np.arange(len(ITEMS))
        )
        for k in (1, 10, 100)
    }
    return recalls | {
        "loss": -np.average(found[:, 0], weights=weights),
        "mrr": sklearn_metrics.label_ranking_average_precision_score(chosen, scores, sample_weight=weights),
        "ndcg_at_10": sklearn_metrics.ndcg_score(chosen, scores, k=10, sample_weight=weights),
    }


def losses_of_groups(labels: np.ndarray, scores: np.ndarray) -> np.ndarray:
    """The cross-entropy with the shares of the gains; 0 of a group in which no row gains anything."""
    found = []
    for own, given in zip(labels, scores.astype("float64"), strict=True):
        gains = 2.0 ** own[own >= 0] - 1
        logs = scipy.special.log_softmax(given[own >= 0])
        found.append(-(gains * logs).sum() / gains.sum() if gains.any() else 0.0)
    return np.array(found)


def metrics_of_groups(labels: np.ndarray, scores: np.ndarray, weights: np.ndarray) -> dict[str, float]:
    labels, scores = labels[weights > 0], scores[weights > 0].astype("float64")
    is_relevant = (labels > 0).any(axis=1)
    gains, lowest = 2.0 ** np.maximum(labels, 0) - 1, np.where(labels < 0, -99.0, scores)
    first = [
        (own[order] > 0).argmax() for own, order in zip(labels, np.argsort(-lowest, axis=1), strict=True)
    ]
    return {
        **{f"ndcg_at_{k}": sklearn_metrics.ndcg_score(gains, lowest, k=k) for k in (10, 5, 1)},
        "ndcg": sklearn_metrics.ndcg_score(gains, lowest),
        "mrr": np.mean(is_relevant / (1 + np.array(first))),
        "loss": losses_of_groups(labels, scores)[is_relevant].mean(),
        "irrelevant_groups": np.mean(~is_relevant),
    }


REFERENCES = {
    "ranking": Reference(
        label=Label(name="y", task="ranking", group_length=14),
        losses=losses_of_groups,
        predictions=lambda logits: logits,
        metrics=metrics_of_groups,
    ),
    "retrieval": Reference(
        label=Label(name="y", task="retrieval", classes=ITEMS),
        losses=lambda y, logits: -scipy.special.log_softmax(logits, axis=1)[np.arange(len(y)), y],
        predictions=lambda logits: scipy.special.softmax(logits, axis=1),
        answers=ranks_of_items,
        metrics=metrics_of_ranks,
    ),
    "next_token": Reference(
        label=TokenLabel(
            name="text", parts=("text", "segments"), length=9, vocabulary_size=5, tokenizer="bytes"
        ),
        losses=losses_of_rows,
        predictions=lambda logits: logits.argmax(axis=-1),
        answers=log_probabilities_of_tokens,
        metrics=metrics_of_tokens,
    ),
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
    """Random examples: labels [n, …], logits float32 [n, logits], weights float32 [n], each 0 or 1.

    `inputs` are the model's, where answers depend on them.
    """

    labels: np.ndarray
    logits: np.ndarray
    weights: np.ndarray
    inputs: Mapping[str, np.ndarray] = dataclasses.field(default_factory=dict)

    def __getitem__(self, rows: slice) -> "Batch":
        return Batch(
            labels=self.labels[rows],
            logits=self.logits[rows],
            weights=self.weights[rows],
            inputs={name: values[rows] for name, values in self.inputs.items()},
        )


def rows_of_tokens(label: TokenLabel) -> Batch:
    """Rows of two documents and of padding."""
    draw = np.random.default_rng(0)
    tokens = draw.integers(0, label.vocabulary_size, (EXAMPLES, label.length))
    tokens = np.where(draw.random(tokens.shape) < 0.5, 0, tokens)  # some of the answers are right
    segments = np.sort(draw.integers(0, 3, tokens.shape))[:, ::-1]
    segments = np.where(segments == 0, 0, 3 - segments)
    goes_on = (np.diff(segments, axis=1) == 0) & (segments[:, 1:] != 0)
    logits = draw.normal(size=(*tokens.shape, label.vocabulary_size)) + 2.0 * np.eye(label.vocabulary_size)[0]
    return Batch(
        labels=np.where(np.pad(goes_on, [[0, 0], [1, 0]]), tokens, -1).astype("int32"),
        logits=logits.astype("float32"),
        weights=draw.integers(0, 2, EXAMPLES).astype("float32"),
        inputs={"text": (tokens + 1).astype("int32"), "segments": (segments + 1).astype("int32")},
    )


def groups_of_rows(label: Label) -> Batch:
    """Groups of 1 to 14 rows; some have no relevant one."""
    draw = np.random.default_rng(0)
    shape = (EXAMPLES, label.group_length)
    labels = np.maximum(0, draw.integers(-9, 5, shape))
    labels[np.arange(shape[1]) >= draw.integers(1, shape[1] + 1, EXAMPLES)[:, None]] = -1
    return Batch(
        labels=labels.astype("int32"),
        logits=draw.normal(size=shape).astype("float32"),
        weights=draw.integers(0, 2, EXAMPLES).astype("float32"),
    )


def examples(label: Label) -> Batch:
    if isinstance(label, TokenLabel):
        return rows_of_tokens(label)
    if label.is_ranking:
        return groups_of_rows(label)
    draw = np.random.default_rng(0)
    size = (EXAMPLES, *label.shape)
    most = 2 if label.shape else len(label.classes)
    labels = draw.integers(0, most, size) if label.classes else draw.normal(size=size)
    return Batch(
        labels=labels.astype("int32" if label.classes else "float32"),
        logits=draw.normal(size=(EXAMPLES, task_of(label).logits(label)), scale=2.0).astype("float32"),
        weights=draw.integers(0, 2, EXAMPLES).astype("float32"),
    )


def answers(label: Label, batch: Batch) -> np.ndarray:
    """What an evaluation takes."""
    inputs = {name: tf.constant(values) for name, values in batch.inputs.items()}
    given = tf.constant(batch.logits), tf.constant(batch.labels)
    return task_of(label).evaluated(label, inputs, *given).numpy()


@pytest.fixture(params=TASKS)
def reference(request: pytest.FixtureRequest) -> Reference:
    assert request.param in REFERENCES, f"task '{request.param}' has no entry in REFERENCES of this test"
    return REFERENCES[request.param]


def test_every_task_has_rules_for_its_label():
    assert set(TASKS) == set(LABEL_TASKS), "TASKS (training/tasks/registry.py) and LABEL_TASKS differ"


def test_a_task_without_an_object_is_refused(monkeypatch):
    monkeypatch.setitem(LABEL_TASKS, "made_up", LABEL_TASKS["regression"])
    with pytest.raises(InputError, match=r"received 'made_up'; .*Add its object to TASKS in .*registry\.py"):
        task_of(Label(name="y", task="made_up"))


def test_losses(reference):
    task, batch = task_of(reference.label), examples(reference.label)
    losses = task.losses(tf.constant(batch.labels), tf.constant(batch.logits))
    assert (losses.dtype, losses.shape) == (tf.float32, [EXAMPLES])
    np.testing.assert_allclose(losses, reference.losses(batch.labels, batch.logits), rtol=1e-4, atol=1e-5)


def test_hits_are_the_right_answers(reference):
    task, batch = task_of(reference.label), examples(reference.label)
    hits = task.hits(tf.constant(batch.labels), tf.constant(batch.logits))
    assert (hits.dtype, hits.shape) == (tf.float32, [EXAMPLES])
    counts = task.counts(tf.constant(batch.labels))
    counts = np.ones(EXAMPLES) if counts is None else counts.numpy()
    if task.has_accuracy:
        expected = reference.metrics(batch.labels, reference.answered(batch), np.ones(EXAMPLES))
        assert np.average(hits, weights=counts) == pytest.approx(expected["accuracy"])


def test_the_loss_of_a_batch_is_that_of_its_evaluation(reference):
    batch = examples(reference.label)
    if reference.label.task == "multitarget":
        pytest.skip("its loss is in units of the labels that are trained on")
    objective = Objective(task=task_of(reference.label))
    found = objective.mean_loss(tf.constant(batch.labels), tf.constant(batch.logits))
    expected = reference.metrics(batch.labels, reference.answered(batch), np.ones(EXAMPLES))["loss"]
    assert float(found) == pytest.approx(expected, rel=1e-5)


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
        metrics.update(part.labels, answers(reference.label, part), part.weights)
    result = metrics.result()
    assert json.loads(json.dumps(result)) == result
    assert result["examples"] == batch.weights.sum()
    expected = reference.metrics(batch.labels, reference.answered(batch), batch.weights)
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
        metrics.update(part.labels, answers(reference.label, part), part.weights, own)
    result, expected = metrics.result(), reference.answered(batch)
    weighted = reference.metrics(batch.labels, expected, batch.weights * weights)
    plain = reference.metrics(batch.labels, expected, batch.weights)
    assert {key: result[f"weighted_{key}"] for key in weighted} == pytest.approx(weighted, rel=1e-5)
    assert {key: result[key] for key in plain} == pytest.approx(plain, rel=1e-5)
    assert set(metrics.numbers()) == {*plain, *(f"weighted_{key}" for key in plain)}


def test_where_nothing_weighs_nothing_is_said_of_it(reference):
    batch = examples(reference.label)[:BATCH]
    metrics = EvaluationMetrics(reference.label)
    metrics.update(batch.labels, answers(reference.label, batch), weights=np.zeros(len(batch.labels)))
    assert not [name for name in metrics.result() if name.startswith("weighted_")]


def test_no_examples_give_no_numbers(reference):
    assert "loss" not in EvaluationMetrics(reference.label).result()
