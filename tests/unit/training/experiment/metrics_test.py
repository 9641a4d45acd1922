"""Metrics that a config names, beside scikit-learn's and SciPy's: uneven batches, weights, padding."""

import json
import sys

import keras
import numpy as np
import pytest
import scipy.stats
from sklearn import metrics as sk

from pipeline.base.errors import InputError
from pipeline.data.schema.feature_types import Label, LabelGroup, TokenLabel
from pipeline.training.experiment import metrics
from pipeline.training.tasks.metrics import METRICS
from pipeline.training.tasks.registry import EvaluationMetrics

EXAMPLES, BATCH = 203, 16  # the last batch holds 11, and five of padding
BINARY = Label(name="y", classes=("no", "yes"))
MANY = Label(name="y", task="multiclass", classes=tuple("abcde"))
PRICE = Label(name="y", task="regression")
TAGS = Label(name="y", task="multilabel", classes=tuple("abc"))
PAIR = LabelGroup(name="a, b", task="multilabel", parts=("a", "b"), classes=("a", "b"))
TOKENS = TokenLabel(name="tokens", parts=("tokens",), length=4, vocabulary_size=4)
TARGETS = LabelGroup(name="a, b", task="multitarget", parts=("a", "b"))


def cost(labels: np.ndarray, predictions: np.ndarray, weights: np.ndarray, *, missed: float = 1.0) -> float:
    """A metric of one's own: what missed positives cost."""
    return float((weights * missed * ((labels == 1) & (predictions[:, 1] <= 0.5))).sum())


def two_numbers(labels: np.ndarray, predictions: np.ndarray, weights: np.ndarray) -> tuple[float, float]:
    return 1.0, 2.0


def no_number(labels: np.ndarray, predictions: np.ndarray, weights: np.ndarray) -> float:
    return float("nan")


class Right(keras.metrics.CategoricalAccuracy):
    """What it takes, its base class says, and not its name."""


class BestTwo(keras.metrics.SparseTopKCategoricalAccuracy):
    def __init__(self, **arguments):
        super().__init__(k=2, **arguments)


class Positives(keras.metrics.Metric):
    """Takes no dtype."""

    def __init__(self):
        super().__init__()
        self.sum = self.add_weight(name="sum", initializer="zeros")

    def update_state(self, y_true, y_pred, sample_weight):
        self.sum.assign_add(keras.ops.sum(keras.ops.cast(y_true[:, 0] * sample_weight, self.sum.dtype)))

    def result(self):
        return self.sum


OWN = f"{__name__}:cost"


def calibration_error(y, p, w, bins: int = 15) -> float:
    """Over SciPy's bins."""
    confidence, right = p.max(axis=1), p.argmax(axis=1) == y
    edges = np.linspace(0, 1, bins + 1)
    sums = [
        scipy.stats.binned_statistic(confidence, w * each, "sum", edges).statistic
        for each in (right, confidence)
    ]
    return np.abs(sums[0] - sums[1]).sum() / w.sum()


def one_hot(y, p) -> np.ndarray:
    return np.eye(p.shape[1])[y]


BINARY_METRICS = {
    "f1": lambda y, p, w: sk.f1_score(y, p[:, 1] > 0.5, sample_weight=w),
    "f1@0.2": lambda y, p, w: sk.f1_score(y, p[:, 1] > 0.2, sample_weight=w),
    "precision@0.3": lambda y, p, w: sk.precision_score(y, p[:, 1] > 0.3, sample_weight=w),
    "recall@0.9": lambda y, p, w: sk.recall_score(y, p[:, 1] > 0.9, sample_weight=w),
    "balanced_accuracy": lambda y, p, w: sk.balanced_accuracy_score(y, p[:, 1] > 0.5, sample_weight=w),
    "kappa": lambda y, p, w: sk.cohen_kappa_score(y, p[:, 1] > 0.5, sample_weight=w),
    "mcc": lambda y, p, w: sk.matthews_corrcoef(y, p[:, 1] > 0.5, sample_weight=w),
    "pr_auc": lambda y, p, w: sk.average_precision_score(y, p[:, 1], sample_weight=w),
    "roc_auc": lambda y, p, w: sk.roc_auc_score(y, p[:, 1], sample_weight=w),
    "brier": lambda y, p, w: sk.brier_score_loss(y, p[:, 1], sample_weight=w),
    "ece": calibration_error,
    "ece@7": lambda y, p, w: calibration_error(y, p, w, 7),
    f"{__name__}:Right": lambda y, p, w: sk.accuracy_score(y, p.argmax(axis=1), sample_weight=w),
    f"{__name__}:Positives": lambda y, p, w: (y * w).sum(),
    OWN + "(missed=3.0)": lambda y, p, w: 3.0 * w[(y == 1) & (p[:, 1] <= 0.5)].sum(),
    "keras.metrics:Precision(thresholds=0.3)": lambda y, p, w: sk.precision_score(
        y, p[:, 1] > 0.3, sample_weight=w
    ),
    "keras.metrics:F1Score(average='macro')": lambda y, p, w: sk.f1_score(
        y, p.argmax(axis=1), average="macro", sample_weight=w
    ),
    "keras.metrics:FBetaScore(beta=2.0, threshold=0.5, average='macro')": lambda y, p, w: sk.fbeta_score(
        y, p[:, 1] > 0.5, beta=2.0, sample_weight=w
    ),
}
MANY_METRICS = {
    "f1": lambda y, p, w: sk.f1_score(y, p.argmax(axis=1), average="macro", sample_weight=w),
    "precision": lambda y, p, w: sk.precision_score(y, p.argmax(axis=1), average="macro", sample_weight=w),
    "recall": lambda y, p, w: sk.recall_score(y, p.argmax(axis=1), average="macro", sample_weight=w),
    "balanced_accuracy": lambda y, p, w: sk.balanced_accuracy_score(y, p.argmax(axis=1), sample_weight=w),
    "kappa": lambda y, p, w: sk.cohen_kappa_score(y, p.argmax(axis=1), sample_weight=w),
    "mcc": lambda y, p, w: sk.matthews_corrcoef(y, p.argmax(axis=1), sample_weight=w),
    "pr_auc": lambda y, p, w: sk.average_precision_score(one_hot(y, p), p, average="macro", sample_weight=w),
    "roc_auc": lambda y, p, w: sk.roc_auc_score(one_hot(y, p), p, average="macro", sample_weight=w),
    "brier": lambda y, p, w: np.average(((p - one_hot(y, p)) ** 2).sum(axis=1), weights=w),
    "ece": calibration_error,
    "top@2": lambda y, p, w: sk.top_k_accuracy_score(y, p, k=2, sample_weight=w, labels=range(5)),
    "keras.metrics:SparseTopKCategoricalAccuracy(k=3)": lambda y, p, w: sk.top_k_accuracy_score(
        y, p, k=3, sample_weight=w, labels=range(5)
    ),
    f"{__name__}:BestTwo": lambda y, p, w: sk.top_k_accuracy_score(
        y, p, k=2, sample_weight=w, labels=range(5)
    ),
    "keras.metrics:CategoricalAccuracy": lambda y, p, w: sk.accuracy_score(
        y, p.argmax(axis=1), sample_weight=w
    ),
}
PRICE_METRICS = {
    "mape": lambda y, p, w: sk.mean_absolute_percentage_error(y, p, sample_weight=w),
    "median_error": lambda y, p, w: sk.median_absolute_error(y, p, sample_weight=w),
    "max_error": lambda y, p, w: np.abs(y - p)[w > 0].max(),
    "explained_variance": lambda y, p, w: sk.explained_variance_score(y, p, sample_weight=w),
    "keras.metrics:MeanAbsoluteError": lambda y, p, w: sk.mean_absolute_error(y, p, sample_weight=w),
    "keras.metrics:R2Score": lambda y, p, w: sk.r2_score(y, p, sample_weight=w),
}
TAGS_METRICS = {
    "f1": lambda y, p, w: sk.f1_score(y, p > 0.5, average="macro", sample_weight=w),
    "f1@0": lambda y, p, w: sk.f1_score(y, p > 0.0, average="macro", sample_weight=w),
    "precision@0.3": lambda y, p, w: sk.precision_score(y, p > 0.3, average="macro", sample_weight=w),
    "recall@0.7": lambda y, p, w: sk.recall_score(y, p > 0.7, average="macro", sample_weight=w),
    "pr_auc": lambda y, p, w: sk.average_precision_score(y, p, average="macro", sample_weight=w),
    "roc_auc": lambda y, p, w: sk.roc_auc_score(y, p, average="macro", sample_weight=w),
    "keras.metrics:F1Score(threshold=0.5, average='micro')": lambda y, p, w: sk.f1_score(
        y, p > 0.5, average="micro", sample_weight=w
    ),
}
TARGETS_METRICS = {
    "keras.metrics:MeanAbsoluteError": lambda y, p, w: sk.mean_absolute_error(y, p, sample_weight=w),
    "keras.metrics:R2Score": lambda y, p, w: sk.r2_score(y, p, sample_weight=w),
}
CASES = [
    (BINARY, BINARY_METRICS),
    (MANY, MANY_METRICS),
    (PRICE, PRICE_METRICS),
    (TAGS, TAGS_METRICS),
    (PAIR, TAGS_METRICS),
    (TARGETS, TARGETS_METRICS),
]


def examples(label: Label) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Labels, predictions as a model gives them, weights: [n]."""
    draw = np.random.default_rng(3)
    weights = draw.exponential(3.0, EXAMPLES).astype("float32")
    weights[::7] = 0.0
    if not label.classes:
        labels = draw.normal(5.0, 2.0, (EXAMPLES, *label.shape)).astype("float32")
        return labels, (labels + draw.normal(0.2, 1.0, labels.shape)).astype("float32"), weights
    if label.shape:
        labels = draw.integers(0, 2, (EXAMPLES, *label.shape)).astype("int32")
        return labels, scipy.special.expit(draw.normal(labels, 1.0)).astype("float32"), weights
    labels = draw.integers(0, len(label.classes), EXAMPLES).astype("int32")
    logits = draw.normal(size=(EXAMPLES, len(label.classes))) + np.eye(len(label.classes))[labels]
    return labels, scipy.special.softmax(logits, axis=1).astype("float32"), weights


def evaluated(label: Label, names: list[str]) -> dict:
    """Over padded batches, of which the last one is not full."""
    labels, predictions, weights = examples(label)
    found = EvaluationMetrics(label, metrics.build(names, label))
    for start in range(0, EXAMPLES, BATCH):
        size = min(BATCH, EXAMPLES - start)
        rows = np.arange(start, start + BATCH) % EXAMPLES  # padding has values, too
        found.update(labels[rows], predictions[rows], np.arange(BATCH) < size, weights[rows])
    return found.result()


@pytest.mark.parametrize(("label", "references"), CASES, ids=lambda each: getattr(each, "task", ""))
def test_each_is_that_of_scikit_learn_with_weights_and_without(label, references):
    result = evaluated(label, list(references))
    assert json.loads(json.dumps(result)) == result
    labels, predictions, weights = examples(label)
    predictions = predictions.astype("float64")
    for (text, reference), key in zip(references.items(), metrics.keys(references), strict=True):
        is_class = text.rpartition(":")[2][0].isupper()
        within = 1e-6 if is_class else 1e-9  # Keras itself adds 1e-7 here and there
        plain = reference(labels, predictions, np.ones(EXAMPLES))
        assert result[key] == pytest.approx(plain, rel=within, abs=within), text
        weighted = reference(labels, predictions, weights.astype("float64"))
        assert result[f"weighted_{key}"] == pytest.approx(weighted, rel=within, abs=within), text


def of(name: str, label: Label, labels: object, predictions: object, weights: object = None) -> float | None:
    found = EvaluationMetrics(label, metrics.build([name], label))
    found.update(np.asarray(labels), np.asarray(predictions), None, np.asarray(weights))
    return found.result().get(f"weighted_{next(iter(metrics.keys([name])))}")


def test_rounding_makes_no_number_of_what_has_none():
    one, errors, equal = np.full(5, 0.1, "float32"), np.arange(6.0), np.full(6, 0.3)
    assert of("explained_variance", PRICE, one, one + 1, [0.3, 0.1, 0.7, 0.2, 0.9]) is None
    assert of("median_error", PRICE, np.zeros(6), errors, equal) == 2.5
    answers, weights = np.tile([0.1, 0.8, 0.1], (3, 1)), [0.47225363, 0.64291651, 0.88647192]
    assert of("mcc", MANY, [0, 1, 2], answers, weights) == 0.0


def test_what_compares_classes_gets_the_class_that_is_answered():
    answers = np.array([[0.9, 0.1], [0.2, 0.8], [0.4, 0.6]])
    for name in ("keras.metrics:MeanIoU(num_classes=2)", "keras.metrics:OneHotMeanIoU(num_classes=2)"):
        assert of(name, BINARY, [0, 1, 1], answers, np.ones(3)) == pytest.approx(1.0, abs=1e-6)


def test_every_metric_has_a_reference():
    tested = {(label.task, text.partition("@")[0]) for label, references in CASES for text in references}
    assert {(task, name) for name, known in METRICS.items() for task in known.tasks} <= tested


def test_ties_do_not_depend_on_the_order_of_examples():
    labels, predictions = np.array([1, 0, 1, 0, 1]), np.array([0.5, 0.5, 0.5, 0.2, 0.2])
    found = EvaluationMetrics(BINARY, metrics.build(["pr_auc", "roc_auc"], BINARY))
    found.update(labels, np.stack([1 - predictions, predictions], axis=1))
    assert found.result()["pr_auc"] == pytest.approx(sk.average_precision_score(labels, predictions))
    assert found.result()["roc_auc"] == pytest.approx(sk.roc_auc_score(labels, predictions))


def test_one_class_alone_has_no_ranking_and_the_number_is_left_out():
    found = EvaluationMetrics(BINARY, metrics.build(["pr_auc", "kappa", "f1"], BINARY))
    found.update(np.zeros(3, "int32"), np.tile([0.8, 0.2], (3, 1)))
    assert {"pr_auc", "kappa"}.isdisjoint(found.result()) and found.result()["f1"] == 0.0


@pytest.mark.parametrize(
    ("label", "names", "message"),
    [
        (BINARY, ["f2"], r"received 'f2'; expected one of f1, precision.*or name code as module:function"),
        (BINARY, ["precison"], r"Did you mean 'precision'"),
        (BINARY, ["precision@high"], r"received 'precision@high'; expected precision@N, a threshold from 0"),
        (BINARY, ["precision@1.5"], r"expected precision@N, a threshold from 0 to 1"),
        (BINARY, ["ece@inf"], r"received 'ece@inf'; expected ece@N"),
        (BINARY, ["keras.metrics:AUC(name='roc')"], r"second metric of the name roc"),
        (BINARY, ["f1(threshold=0.5)"], r"expected f1 without arguments. Write f1@N, a threshold"),
        (BINARY, ["brier(bins=2)"], r"expected brier without arguments. Write the name, or name code"),
        (BINARY, ["brier@2"], r"received 'brier@2'; expected brier without a number"),
        (MANY, ["recall@0.5"], r"expected recall@N, a threshold.*where there are two classes"),
        (MANY, ["top"], r"received 'top'; expected top@N, how many answers count"),
        (TAGS, ["keras.metrics:MeanIoU(num_classes=2)"], r"metric of one class an example.*threshold=0.5"),
        (TOKENS, ["keras.metrics:MeanSquaredError"], r"expected none for next_token, which has loss, perpl"),
        (TARGETS, ["max_error"], r"received one for regression; expected a metric for multitarget"),
        (BINARY, ["mape"], r"received one for regression; expected a metric for binary: f1, "),
        (BINARY, ["f1", "f1"], r"a second metric of the name f1"),
        (
            BINARY,
            ["keras.metrics:AUC"],
            r"second metric of the name auc.*Write keras.metrics:AUC\(name='another'\)",
        ),
        (BINARY, ["keras.metrics:AUK"], r"received no AUK in .*; .*Did you mean keras.metrics:AUC"),
        (BINARY, ["keras.metrics:AUC(points=3)"], r"points"),
        (BINARY, ["keras.metrics:F1Score"], r"received 2 numbers; .*average='macro'"),
        (BINARY, ["nowhere.at_all:f1"], r"received no module nowhere\.at_all; .*PYTHONPATH"),
        (BINARY, [f"{__name__}:two_numbers"], r"received 2 numbers; expected a metric that gives one number"),
        (BINARY, [f"{__name__}:no_number"], r"received no finite number on 4 examples"),
        (PRICE, ["keras.metrics:ConcordanceCorrelation"], r"received a metric of several numbers an example"),
        (BINARY, [f"{__name__}:cost(missed=)"], r"expected a name, or a name with values of its arguments"),
        (
            BINARY,
            [f"{__name__}:cost(lost=1)"],
            r"TypeError.*lost.*metrics_test\.py or its arguments",
        ),
        (BINARY, [f"{__name__}:ends"], r"received SystemExit on 4 examples: 0; .*metrics_test\.py, line \d+"),
        (
            BINARY,
            [f"{__name__}:Failing"],
            r"received KeyError: 'k'; .*metrics_test\.py, line \d+, or",
        ),
    ],
)
def test_what_cannot_be_measured_is_refused_before_training(label, names, message):
    with pytest.raises(InputError, match=message):
        metrics.build(names, label)


def ends(labels, predictions, weights):
    sys.exit(0)


class Failing(keras.metrics.Metric):
    def __init__(self, dtype=None):
        raise KeyError("k")


def of_few(labels, predictions, weights):
    return 1 / (len(labels) < 10)


def test_one_that_fails_in_an_evaluation_names_its_line():
    found = EvaluationMetrics(BINARY, metrics.build([f"{__name__}:of_few"], BINARY))
    found.update(np.zeros(12, "int32"), np.tile([0.8, 0.2], (12, 1)))
    with pytest.raises(InputError, match=r"ZeroDivisionError on 12 examples: .*_test\.py, line \d+\.$"):
        found.result()


def test_the_report_shows_them_without_importing_anything():
    shown = metrics.shown(["precision@0.3", "keras.metrics:MeanIoU", "not.there:profit(name='gain')"])
    assert [each.key for each in shown] == ["precision@0.3", "mean_io_u", "gain"]
    assert [each.is_higher_better for each in shown] == [True, False, False]
