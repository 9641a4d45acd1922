"""Every metric beside another computation of it, weights included, from predictions as exports give them."""

import itertools

import numpy as np
import pytest
from scipy import special
from sklearn import metrics as sk

from pipeline.base.errors import InputError
from pipeline.gate.measurement import measure
from pipeline.gate.metrics import METRICS, metric_of
from pipeline.gate.rules import GateRules
from pipeline.gate.scores import Scored, prepare

CLOSE = 1e-9
ROWS, CLASSES = 240, 4
RNG = np.random.default_rng(2)
WEIGHTS = RNG.gamma(1, 1, ROWS) * (RNG.random(ROWS) < 0.9)
BINARY = RNG.integers(2, size=ROWS)
POSITIVE = np.clip(RNG.beta(2, 2, ROWS) * 0.7 + 0.3 * BINARY, 0.01, 0.99)
CLASS = RNG.integers(CLASSES, size=ROWS)
RATES = RNG.dirichlet(np.ones(CLASSES), ROWS)
TRUTH = RNG.normal(5, 2, ROWS)
VALUES = TRUTH + RNG.normal(0, 1, ROWS)

SETS = RNG.integers(2, size=(ROWS, CLASSES))
OF_SETS = np.clip(RNG.beta(2, 2, SETS.shape) * 0.7 + 0.3 * SETS, 0.01, 0.99)
TARGETS = RNG.normal(5, (2, 2000), (ROWS, 2))
OF_TARGETS = TARGETS + RNG.normal(0, (1, 300), TARGETS.shape)


def in_spreads(metric, w) -> float:
    """The mean over targets of a metric of labels and predictions in units of the labels' spread."""
    spreads = TARGETS[slice(None) if w is None else w > 0].std(axis=0)
    return metric(TARGETS / spreads, OF_TARGETS / spreads, sample_weight=w)


# Scores of items and of groups' rows are whole numbers, so that many are equal. Groups have 1 to 6 rows.
ITEMS, LENGTH = 30, 6
ITEM = RNG.integers(ITEMS, size=ROWS)
OF_ITEMS = RNG.integers(9, size=(ROWS, ITEMS)) + 3 * (np.arange(ITEMS) == ITEM[:, None])
IS_THERE = np.arange(LENGTH) < RNG.integers(1, LENGTH + 1, ROWS)[:, None]
GROUPS = np.where(IS_THERE, RNG.integers(4, size=(ROWS, LENGTH)) * (RNG.random((ROWS, 1)) < 0.9), -1)
OF_GROUPS = (GROUPS + RNG.integers(4, size=GROUPS.shape)).astype(float)
TOKENS = np.where(
    np.arange(LENGTH) < 2 + RNG.integers(4, size=(ROWS, 1)), RNG.integers(5, size=(ROWS, 6)), -1
)
TOKENS[:, 0] = -1
OF_TOKENS = special.log_softmax(RNG.normal(size=(ROWS, LENGTH, 5)), axis=-1)


def own(logs, labels) -> np.ndarray:
    return np.take_along_axis(logs, np.maximum(labels, 0)[..., None], -1)[..., 0]


def ranked_items() -> np.ndarray:
    mine = own(OF_ITEMS, ITEM)[:, None]
    better, equal = (mine < OF_ITEMS).sum(axis=1), (mine == OF_ITEMS).sum(axis=1) - 1
    return np.stack([own(special.log_softmax(OF_ITEMS, axis=1), ITEM), better, equal], axis=1)


def of_items(worth):
    """The mean of what a rank is worth, tie by tie: each of the equal items may be the chosen one."""
    rows = [
        np.mean([worth(rank) for rank in range(1 + int(better), 2 + int(better + equal))])
        for _, better, equal in ranked_items()
    ]
    return lambda w: np.average(rows, weights=w)


def of_groups(metric):
    """The mean over groups of what scikit-learn, or trying all orders, says of the rows that are there."""
    rows = [metric(r[there], s[there]) for r, s, there in zip(GROUPS, OF_GROUPS, IS_THERE, strict=True)]
    return lambda w: np.average(rows, weights=w)


def ndcg(k):
    # Scikit-learn refuses groups of one row, so one worth nothing is added at the end.
    return lambda r, s: sk.ndcg_score([[*(2.0**r - 1), 0]], [[*s, -9]], k=k) if r.any() else 0.0


def first_relevant(r, s) -> float:
    orders = [o for o in itertools.permutations(range(len(r))) if (np.diff(s[list(o)]) <= 0).all()]
    return np.mean([max((1 / (i + 1) for i, at in enumerate(o) if r[at] > 0), default=0) for o in orders])


def of_tokens(values):
    there = TOKENS >= 0

    def mean(w):
        weights = there * (1.0 if w is None else w[:, None])
        return np.average(values[there], weights=weights[there])

    return mean


BY_SKLEARN = {
    "retrieval": (
        ITEM,
        ranked_items(),
        {
            "log_loss": lambda w: np.average(-ranked_items()[:, 0], weights=w),
            "recall_at_10": of_items(lambda rank: rank <= 10),
            "ndcg_at_10": of_items(lambda rank: (rank <= 10) / np.log2(rank + 1)),
            "mrr": of_items(lambda rank: 1 / rank),
        },
    ),
    "ranking": (
        GROUPS,
        OF_GROUPS,
        {"ndcg_at_10": of_groups(ndcg(10)), "ndcg": of_groups(ndcg(None)), "mrr": of_groups(first_relevant)},
    ),
    "next_token": (
        TOKENS,
        np.stack([own(OF_TOKENS, TOKENS), OF_TOKENS.max(axis=-1)], axis=-1),
        {
            "log_loss": of_tokens(-own(OF_TOKENS, TOKENS)),
            "accuracy": of_tokens((OF_TOKENS.argmax(axis=-1) == TOKENS).astype(float)),
        },
    ),
    "multilabel": (
        SETS,
        OF_SETS,
        {
            "log_loss": lambda w: np.mean(
                [sk.log_loss(SETS[:, at], OF_SETS[:, at], sample_weight=w) for at in range(CLASSES)]
            ),
            "accuracy": lambda w: sk.accuracy_score(SETS, OF_SETS > 0.5, sample_weight=w),
            "hamming_loss": lambda w: sk.hamming_loss(SETS, OF_SETS > 0.5, sample_weight=w),
        },
    ),
    "multitarget": (
        TARGETS,
        OF_TARGETS,
        {
            "mean_squared_error": lambda w: in_spreads(sk.mean_squared_error, w),
            "mean_absolute_error": lambda w: in_spreads(sk.mean_absolute_error, w),
        },
    ),
    "binary": (
        BINARY,
        POSITIVE,
        {
            "log_loss": lambda w: sk.log_loss(BINARY, POSITIVE, sample_weight=w),
            "auc": lambda w: sk.roc_auc_score(BINARY, POSITIVE, sample_weight=w),
            "accuracy": lambda w: sk.accuracy_score(BINARY, POSITIVE > 0.5, sample_weight=w),
            "brier": lambda w: sk.brier_score_loss(BINARY, POSITIVE, sample_weight=w),
        },
    ),
    "multiclass": (
        CLASS,
        RATES,
        {
            "log_loss": lambda w: sk.log_loss(CLASS, RATES, sample_weight=w),
            "accuracy": lambda w: sk.accuracy_score(CLASS, RATES.argmax(1), sample_weight=w),
            "brier": lambda w: sk.brier_score_loss(CLASS, RATES, sample_weight=w, labels=range(CLASSES)),
        },
    ),
    "regression": (
        TRUTH,
        VALUES,
        {
            "mean_squared_error": lambda w: sk.mean_squared_error(TRUTH, VALUES, sample_weight=w),
            "mean_absolute_error": lambda w: sk.mean_absolute_error(TRUTH, VALUES, sample_weight=w),
        },
    ),
}


def value(scored: Scored, name: str) -> float:
    metric = metric_of(scored.task, name)
    return measure(metric, prepare(scored).sample(metric), GateRules()).value("challenger").value


@pytest.mark.parametrize("weights", [None, WEIGHTS], ids=["plain", "weighted"])
@pytest.mark.parametrize(
    ("task", "name"), [(task, metric.name) for task, metrics in METRICS.items() for metric in metrics]
)
def test_it_is_what_others_compute(task, name, weights):
    labels, predictions, expected = BY_SKLEARN[task]
    scored = Scored(task=task, labels=labels, predictions={"challenger": predictions}, weights=weights)
    assert value(scored, name) == pytest.approx(expected[name](weights), rel=CLOSE)


@pytest.mark.parametrize("name", [metric.name for metric in METRICS["binary"]])
def test_two_probabilities_say_the_same_as_one(name):
    both = np.stack([1 - POSITIVE, POSITIVE], axis=1)
    one, two = (
        value(Scored(task="binary", labels=BINARY, predictions={"challenger": made}), name)
        for made in (POSITIVE, both)
    )
    assert one == pytest.approx(two, rel=CLOSE)


def test_a_wrong_certainty_costs_what_it_costs_in_training():
    scored = Scored(task="binary", labels=np.array([1, 1]), predictions={"challenger": np.array([0.0, 1.0])})
    assert value(scored, "log_loss") == pytest.approx(-np.log(1e-7) / 2, rel=CLOSE)
    assert value(scored, "brier") == 0.5


def test_half_is_no_yes():
    scored = Scored(task="binary", labels=np.array([0, 1]), predictions={"challenger": np.array([0.5, 0.5])})
    assert value(scored, "accuracy") == 0.5


def test_a_column_of_values_is_values():
    scored = Scored(task="regression", labels=TRUTH, predictions={"challenger": VALUES[:, None]})
    assert value(scored, "mean_squared_error") == pytest.approx(np.mean((VALUES - TRUTH) ** 2), rel=CLOSE)


@pytest.mark.parametrize("name", [metric.name for metric in METRICS["multitarget"]])
def test_a_target_of_one_value_adds_nothing(name):
    labels = np.stack([TARGETS[:, 0], np.full(ROWS, 0.1)], axis=1)  # whose mean is rounded
    predictions = np.stack([OF_TARGETS[:, 0], np.full(ROWS, 30.0)], axis=1)
    alone, both = (
        value(Scored(task="multitarget", labels=labels[:, :n], predictions={"challenger": made[:, :n]}), name)
        for n, made in ((1, OF_TARGETS), (2, predictions))
    )
    assert both == pytest.approx(alone / 2, rel=CLOSE)


def test_a_metric_of_another_task_is_named():
    with pytest.raises(InputError, match="task 'regression': received 'auc'; expected mean_squared_error, "):
        metric_of("regression", "auc")
