"""Ranking by group: which rows of a group, such as the documents of a query, should stand first.

A model scores each row by itself, and the loss compares the rows of a group. So whoever asks a served model
gives rows, as many as there are, and sorts them by their scores. The loss is `softmax_loss`;
`--config.loss.name=pipeline.training.tasks.ranking:lambda_loss` is the other one. Evaluations have the first.

A relevance r gains 2^r - 1 (C. Burges et al. 2005, "Learning to Rank using Gradient Descent", section 6),
and rank i discounts it by log2(i + 1) (K. Järvelin and J. Kekäläinen 2002, "Cumulated Gain-Based Evaluation
of IR Techniques"). NDCG is the sum of discounted gains, divided by that of the best order.
"""

from collections.abc import Mapping

import keras
import numpy as np
import tensorflow as tf

from pipeline.base.ranks import RankedGroups
from pipeline.data.preprocessing.preprocess import merged_groups
from pipeline.data.schema.feature_types import Label
from pipeline.training.tasks.task import LOSS, Gather, Metric, Task

_CUTS = (10, 5, 1)  # the first one is the headline
_NDCG = {
    k: Metric(key=f"ndcg_at_{k}", name=f"NDCG@{k}", is_fraction=True, is_higher_better=True) for k in _CUTS
}
_WHOLE = Metric(key="ndcg", name="NDCG", is_fraction=True, is_higher_better=True)
_MRR = Metric(key="mrr", name="mean reciprocal rank", is_fraction=True, is_higher_better=True)
_IRRELEVANT = Metric(key="irrelevant_groups", name="groups without a relevant row", is_fraction=True)
_LOWEST = -1e30  # the score of what fills up a group


class Ranking(Task):
    """A score for each row: logits [batch, 1] of rows, or [batch, length] of groups.

    Labels of groups are int32 [batch, length]; those of rows that fill up a group are below 0.
    """

    metrics = (*_NDCG.values(), _WHOLE, _MRR, LOSS, _IRRELEVANT)

    def of_batch(self, model: keras.Model) -> "OfGroups":
        return OfGroups(model)

    def split(self, model: keras.Model, *, gather: Gather | None = None) -> tuple["OfGroups", "Ranking"]:
        del gather
        return OfGroups(model), self

    def logits(self, label: Label) -> int:
        return 1

    def counts(self, labels: tf.Tensor) -> tf.Tensor:
        """1 for each group with a relevant row: the others say nothing about an order."""
        return tf.cast(tf.reduce_any(labels > 0, axis=1), tf.float32)

    def losses(self, labels: tf.Tensor, logits: tf.Tensor) -> tf.Tensor:
        return softmax_loss(labels, logits)

    def predictions(self, logits: tf.Tensor) -> tf.Tensor:
        """The scores as they are: only their order within a group means something."""
        return logits

    def answers(self, label: Label, inputs: Mapping[str, tf.Tensor], logits: tf.Tensor) -> tf.Tensor:
        return logits if label.shape else logits[:, 0]

    def accumulator(self, label: Label) -> "_Groups":
        return _Groups()


class OfGroups:
    """A model of rows as one of groups: inputs [batch, length, …] to logits [batch, length].

    In training, a model of several members gives [batch, members, length]. Inputs of rows, [batch, …], go
    through as they are.
    """

    def __init__(self, model: keras.Model) -> None:
        self._model = model
        self._ranks = {each.name: len(each.shape) for each in model.inputs}

    def __call__(self, inputs: Mapping[str, tf.Tensor], training: bool = False) -> tf.Tensor:
        length = self._length(inputs)
        if length is None:
            return self._model(dict(inputs), training=training)
        # (batch * length,) or, of members, (batch * length, members)
        logits = self._model(merged_groups(inputs), training=training)[..., 0]
        if logits.shape.rank == 1:
            return tf.reshape(logits, [-1, length])
        return tf.transpose(tf.reshape(logits, [-1, length, logits.shape[1]]), [0, 2, 1])

    def _length(self, inputs: Mapping[str, tf.Tensor]) -> int | None:
        name, rank = next((name, rank) for name, rank in self._ranks.items() if name in inputs)
        return inputs[name].shape[1] if inputs[name].shape.rank > rank else None


# --- Losses of groups: labels int32 [batch, length] and scores float32 [batch, length] → float32 [batch].


def softmax_loss(labels: tf.Tensor, scores: tf.Tensor) -> tf.Tensor:
    """The cross-entropy between a softmax over the scores and the shares of the gains, in nats.

    S. Bruch 2021, "An Alternative Cross Entropy Loss for Learning-to-Rank", without its noise; where one row
    is relevant, it is ListNet's (Z. Cao et al. 2007, "Learning to Rank: From Pairwise Approach to Listwise
    Approach").
    """
    gains = _gains(labels)
    shares = tf.math.divide_no_nan(gains, tf.reduce_sum(gains, axis=1, keepdims=True))
    logs = tf.nn.log_softmax(tf.where(labels >= 0, scores, _LOWEST))
    return -tf.reduce_sum(tf.where(gains > 0, shares * logs, 0.0), axis=1)


def lambda_loss(labels: tf.Tensor, scores: tf.Tensor) -> tf.Tensor:
    """LambdaRank: the logistic loss of each pair, weighted by what swapping the two would change of NDCG.

    X. Wang et al. 2018, "The LambdaLoss Framework for Ranking Metric Optimization", section 4.2. The ranks
    are those of the scores, and have no gradient. It takes memory for [batch, length, length] numbers.
    """
    gains, there = _gains(labels), labels >= 0
    ideal = tf.reduce_sum(tf.sort(gains, axis=1, direction="DESCENDING") * _discounts(gains), axis=1)
    gains = tf.math.divide_no_nan(gains, ideal[:, None])
    discounts = 1.0 / (tf.math.log(1.0 + _ranks(tf.stop_gradient(scores), there)) / np.log(2.0))
    change = tf.abs(_differences(gains) * _differences(discounts))
    is_pair = there[:, None, :] & (labels[:, :, None] > labels[:, None, :])
    each = tf.nn.softplus(-_differences(scores)) / np.log(2.0)
    return tf.reduce_sum(tf.where(is_pair, change * each, 0.0), axis=[1, 2])


def _gains(labels: tf.Tensor) -> tf.Tensor:
    return tf.where(labels > 0, tf.pow(2.0, tf.cast(labels, tf.float32)) - 1.0, 0.0)


def _discounts(gains: tf.Tensor) -> tf.Tensor:
    """What each rank keeps of a gain, float32 [length]."""
    return tf.constant(1 / np.log2(np.arange(gains.shape[1]) + 2), tf.float32)


def _differences(values: tf.Tensor) -> tf.Tensor:
    """The difference of each pair of values in a row: [batch, length] → [batch, length, length]."""
    return values[:, :, None] - values[:, None, :]


def _ranks(scores: tf.Tensor, there: tf.Tensor) -> tf.Tensor:
    """The rank of each row in its group, from 1 on, float32 [batch, length]; the first of equal scores is
    better.
    """
    scores = tf.where(there, scores, _LOWEST)
    one, other = scores[:, :, None], scores[:, None, :]
    place = tf.range(scores.shape[1])
    is_before = (other > one) | ((other == one) & (place[None, :] < place[:, None]))
    return 1.0 + tf.reduce_sum(tf.cast(is_before, tf.float32), axis=2)


# --- Metrics.


class _Groups:
    """Adds up the metrics of groups, which follow from the orders of their rows: see RankedGroups."""

    def __init__(self) -> None:
        self._sums = dict.fromkeys((*(each.key for each in Ranking.metrics if each != _IRRELEVANT),), 0.0)
        self._groups = self._relevant = 0

    def update(self, labels: np.ndarray, predictions: np.ndarray, weights: np.ndarray | None = None) -> None:
        self._groups += len(labels)
        kept = (labels > 0).any(axis=1)
        labels, scores = labels[kept], predictions[kept]
        self._relevant += len(labels)
        if not len(labels):
            return
        ranked = RankedGroups(labels, scores)
        self._sums[_MRR.key] += float(ranked.reciprocal_ranks().sum())
        for k, metric in ((None, _WHOLE), *_NDCG.items()):
            self._sums[metric.key] += float(ranked.ndcg(k).sum())
        self._sums[LOSS.key] += float(_softmax_losses(labels, scores).sum())

    def result(self) -> dict:
        means = {key: each / self._groups for key, each in self._sums.items()}
        means[LOSS.key] = self._sums[LOSS.key] / max(1, self._relevant)
        return {**means, _IRRELEVANT.key: (self._groups - self._relevant) / self._groups}


def _softmax_losses(labels: np.ndarray, scores: np.ndarray) -> np.ndarray:
    """`softmax_loss` in float64 [groups], of groups with a relevant row."""
    gains = np.where(labels > 0, np.exp2(labels) - 1, 0.0)
    scores = np.where(labels >= 0, scores, -np.inf)
    highest = scores.max(axis=1, keepdims=True)
    logs = scores - highest - np.log(np.exp(scores - highest).sum(axis=1, keepdims=True))
    return -(np.where(gains > 0, gains * np.where(labels >= 0, logs, 0.0), 0.0)).sum(axis=1) / gains.sum(
        axis=1
    )
