"""The metrics of the gate: what one example adds to each, and which tasks have it."""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Literal

import numpy as np

from pipeline.base import ranks
from pipeline.base.errors import unknown_name

# Like the loss in training: a certain but wrong prediction costs 16 nats, not infinity.
_SMALLEST_PROBABILITY = 1e-7


@dataclasses.dataclass(frozen=True, kw_only=True)
class Metric:
    """One number of a model on a holdout.

    Attributes:
      kind: how it is computed from `column`: as a mean, as a share of ones, or as the area under a ROC curve.
      column: (labels, predictions) → a number for each example, float64 [n]. Labels are int64 classes [n]
        with predictions [n, classes], or float64 values [n] with predictions float64 [n]. If an example has
        several answers, both are [n, answers]. `Scored` says what items, groups and tokens have.
    """

    name: str
    kind: Literal["mean", "share", "area"]
    column: Callable[[np.ndarray, np.ndarray], np.ndarray]
    is_higher_better: bool = False


def _of_own_class(labels: np.ndarray, probabilities: np.ndarray) -> np.ndarray:
    return probabilities[np.arange(len(labels)), labels].astype(np.float64)


def _log_losses(labels: np.ndarray, probabilities: np.ndarray) -> np.ndarray:
    return -np.log(np.clip(_of_own_class(labels, probabilities), _SMALLEST_PROBABILITY, 1.0))


def _brier_scores(labels: np.ndarray, probabilities: np.ndarray) -> np.ndarray:
    """G. W. Brier (1950): the squared distance to the true class; with two classes, to the positive one."""
    if probabilities.shape[1] == 2:
        return (probabilities[:, 1].astype(np.float64) - labels) ** 2
    squares = np.einsum("nc,nc->n", probabilities, probabilities, dtype=np.float64)
    return squares - 2 * _of_own_class(labels, probabilities) + 1


def _hits(labels: np.ndarray, probabilities: np.ndarray) -> np.ndarray:
    return (probabilities.argmax(axis=1) == labels).astype(np.float64)


def _positive_scores(labels: np.ndarray, probabilities: np.ndarray) -> np.ndarray:
    del labels
    return probabilities[:, 1].astype(np.float64)


def _squared_errors(labels: np.ndarray, values: np.ndarray) -> np.ndarray:
    return (values - labels) ** 2


def _absolute_errors(labels: np.ndarray, values: np.ndarray) -> np.ndarray:
    return np.abs(values - labels)


def _log_losses_of_sets(labels: np.ndarray, probabilities: np.ndarray) -> np.ndarray:
    """The mean over the classes of a multilabel."""
    own = np.where(labels == 1, probabilities, 1.0 - probabilities.astype(np.float64))
    return -np.log(np.clip(own, _SMALLEST_PROBABILITY, 1.0)).mean(axis=1)


def _exact_matches(labels: np.ndarray, probabilities: np.ndarray) -> np.ndarray:
    return ((probabilities > 0.5) == (labels == 1)).all(axis=1).astype(np.float64)


def _wrong_classes(labels: np.ndarray, probabilities: np.ndarray) -> np.ndarray:
    """The share of the classes whose answer is wrong: the Hamming loss."""
    return ((probabilities > 0.5) != (labels == 1)).mean(axis=1)


def _in_spreads(labels: np.ndarray) -> np.ndarray:
    """The standard deviations of the targets, [targets].

    Infinity where all labels are equal, so that errors there add 0, as in an evaluation: a unit of the file
    would let such a target outweigh all others.
    """
    is_constant = (labels == labels[0]).all(axis=0)
    return np.where(is_constant, np.inf, labels.std(axis=0))


def _squared_errors_of_targets(labels: np.ndarray, values: np.ndarray) -> np.ndarray:
    """The mean over targets, each in units of the spread of its labels here."""
    return (((values - labels) / _in_spreads(labels)) ** 2).mean(axis=1)


def _absolute_errors_of_targets(labels: np.ndarray, values: np.ndarray) -> np.ndarray:
    return (np.abs(values - labels) / _in_spreads(labels)).mean(axis=1)


# --- Items: the log-probability of the chosen one, and how many others have a higher score, or the same.


def _log_losses_of_items(labels: np.ndarray, ranked: np.ndarray) -> np.ndarray:
    del labels
    return -ranked[:, 0].astype(np.float64)


def _worth_of_items(worth: Callable[[np.ndarray], np.ndarray]) -> Callable[..., np.ndarray]:
    """Returns a column: the mean of `worth`, a function of ranks, over all orders of equal scores."""

    def column(labels: np.ndarray, ranked: np.ndarray) -> np.ndarray:
        del labels
        better, equal = ranked[:, 1:].T.astype(np.int64)
        possible = np.arange(1, int((better + equal).max()) + 2)
        return ranks.mean_of_ties(ranks.sums_before(worth(possible)), better, equal)

    return column


# --- Groups: the order of a group's rows by their scores.


def _gains_of_groups(k: int | None) -> Callable[[np.ndarray, np.ndarray], np.ndarray]:
    return lambda labels, scores: ranks.RankedGroups(labels, scores).ndcg(k)


def _reciprocal_ranks(labels: np.ndarray, scores: np.ndarray) -> np.ndarray:
    return ranks.RankedGroups(labels, scores).reciprocal_ranks()


# --- Tokens: a row's number is the mean over its predicted tokens. The row weighs as many as it has.


def _log_losses_of_tokens(labels: np.ndarray, logs: np.ndarray) -> np.ndarray:
    return _token_means(labels, -logs[..., 0])


def _hits_of_tokens(labels: np.ndarray, logs: np.ndarray) -> np.ndarray:
    return _token_means(labels, logs[..., 0] >= logs[..., 1])


def _token_means(labels: np.ndarray, values: np.ndarray) -> np.ndarray:
    is_predicted = labels >= 0
    return np.sum(values * is_predicted, axis=1, dtype=np.float64) / is_predicted.sum(axis=1)


LOG_LOSS = Metric(name="log_loss", kind="mean", column=_log_losses)
AUC = Metric(name="auc", kind="area", column=_positive_scores, is_higher_better=True)
ACCURACY = Metric(name="accuracy", kind="share", column=_hits, is_higher_better=True)
BRIER = Metric(name="brier", kind="mean", column=_brier_scores)
MEAN_SQUARED_ERROR = Metric(name="mean_squared_error", kind="mean", column=_squared_errors)
MEAN_ABSOLUTE_ERROR = Metric(name="mean_absolute_error", kind="mean", column=_absolute_errors)

LOG_LOSS_OF_SETS = Metric(name="log_loss", kind="mean", column=_log_losses_of_sets)
EXACT_MATCH = Metric(name="accuracy", kind="share", column=_exact_matches, is_higher_better=True)
HAMMING_LOSS = Metric(name="hamming_loss", kind="mean", column=_wrong_classes)
SQUARED_ERROR_OF_TARGETS = Metric(name="mean_squared_error", kind="mean", column=_squared_errors_of_targets)
ABSOLUTE_ERROR_OF_TARGETS = Metric(
    name="mean_absolute_error", kind="mean", column=_absolute_errors_of_targets
)

_K = 10
LOG_LOSS_OF_ITEMS = Metric(name="log_loss", kind="mean", column=_log_losses_of_items)
RECALL = Metric(
    name=f"recall_at_{_K}",
    kind="mean",
    column=_worth_of_items(lambda rank: ranks.recalled(rank, _K)),
    is_higher_better=True,
)
NDCG_OF_ITEMS = Metric(
    name=f"ndcg_at_{_K}",
    kind="mean",
    column=_worth_of_items(lambda rank: ranks.discounted(rank, _K)),
    is_higher_better=True,
)
MRR_OF_ITEMS = Metric(
    name="mrr", kind="mean", column=_worth_of_items(ranks.reciprocal), is_higher_better=True
)

NDCG_AT_K = Metric(name=f"ndcg_at_{_K}", kind="mean", column=_gains_of_groups(_K), is_higher_better=True)
NDCG = Metric(name="ndcg", kind="mean", column=_gains_of_groups(None), is_higher_better=True)
MRR = Metric(name="mrr", kind="mean", column=_reciprocal_ranks, is_higher_better=True)

LOG_LOSS_OF_TOKENS = Metric(name="log_loss", kind="mean", column=_log_losses_of_tokens)
TOKEN_ACCURACY = Metric(name="accuracy", kind="mean", column=_hits_of_tokens, is_higher_better=True)

# By task (pipeline/data/schema/feature_types.py). The first one decides unless the rules name another.
METRICS: Mapping[str, tuple[Metric, ...]] = {
    "binary": (LOG_LOSS, AUC, ACCURACY, BRIER),
    "multiclass": (LOG_LOSS, ACCURACY, BRIER),
    "multilabel": (LOG_LOSS_OF_SETS, EXACT_MATCH, HAMMING_LOSS),
    "regression": (MEAN_SQUARED_ERROR, MEAN_ABSOLUTE_ERROR),
    "multitarget": (SQUARED_ERROR_OF_TARGETS, ABSOLUTE_ERROR_OF_TARGETS),
    "retrieval": (LOG_LOSS_OF_ITEMS, RECALL, NDCG_OF_ITEMS, MRR_OF_ITEMS),
    "ranking": (NDCG_AT_K, NDCG, MRR),
    "next_token": (LOG_LOSS_OF_TOKENS, TOKEN_ACCURACY),
}
NAMES: tuple[str, ...] = tuple(dict.fromkeys(metric.name for some in METRICS.values() for metric in some))


def metric_of(task: str, name: str) -> Metric:
    """Returns the task's metric of that name; the first one for an empty name. Raises InputError."""
    named = {metric.name: metric for metric in METRICS[task]}
    if not name:
        return METRICS[task][0]
    if name not in named:
        thing, otherwise = f"metric of the gate for task '{task}'", "Choose one of them, or leave it empty."
        raise unknown_name(thing, name, named, expected="", otherwise=otherwise)
    return named[name]
