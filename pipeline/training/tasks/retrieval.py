"""Retrieval: which of very many items was chosen. A model scores all of them, and answers the best ones.

The loss is the cross-entropy, in nats, of a softmax over all items. Where these are many, the softmax is over
the items of the batch, those of all replicas together. An item that is chosen often is then often among the
others, too, and would be scored too low. So each score s is corrected to s - log Q (Yi et al. 2019,
"Sampling-Bias-Corrected Neural Modeling for Large Corpus Item Recommendations"). Q is the probability to be
among the others, 1 - (1 - q)^n, of n other rows and an item with the share q of the train split; and each
item counts once, however many rows chose it. With this Q the scores are consistent: they tend to the
log-probabilities of a softmax over all items (S. Jean et al. 2015, "On Using Very Large Target Vocabulary for
Neural Machine Translation", section 3). With q itself, as in Yi et al., they are so only where n · q is far
below 1.

Evaluations rank all items and have the loss over all of them, whatever the model was trained with.
"""

import dataclasses
from collections.abc import Mapping

import keras
import numpy as np
import tensorflow as tf

from models import items as items_lib
from models.items import Items
from pipeline.base.errors import InputError
from pipeline.base.ranks import discounted, mean_of_ties, recalled, reciprocal, sums_before
from pipeline.data.dataset.statistics import SplitStatistics
from pipeline.data.schema.feature_types import LABEL_TASKS, RETRIEVAL, Label
from pipeline.training.tasks import item_blocks
from pipeline.training.tasks.item_blocks import Dense, Scores
from pipeline.training.tasks.task import LOSS, Gather, Metric, Task

ITEMS = "items"  # the output of a served model that holds the names of the best items
_K = 10  # items that are answered where the model does not say how many
_CUTS = (10, 1, 100)  # the first one is the headline
_NDCG = 10


def _recall(k: int) -> Metric:
    return Metric(key=f"recall_at_{k}", name=f"recall@{k}", is_fraction=True, is_higher_better=True)


_MRR = Metric(key="mrr", name="mean reciprocal rank", is_fraction=True, is_higher_better=True)
_GAIN = Metric(key=f"ndcg_at_{_NDCG}", name=f"NDCG@{_NDCG}", is_fraction=True, is_higher_better=True)
_RECALLS = {k: _recall(k) for k in _CUTS}


def _alone(ids: tf.Tensor) -> tf.Tensor:
    return ids


@dataclasses.dataclass(frozen=True, eq=False)
class Retrieval(Task):
    """A score for each item: logits [batch, items] or, after `split`, query vectors [batch, size].

    Attributes:
      items: what scores items for query vectors; None: logits are the scores themselves.
      shares: each item's share of the train split, float64 [items], above 0 and below 1; None: not known.
      gather: gives the chosen items of all replicas, int32 [global batch], from those of one.
    """

    items: Items | None = None
    shares: np.ndarray | None = None
    gather: Gather = _alone

    metrics = (*_RECALLS.values(), _MRR, _GAIN, LOSS)
    has_weighted_metrics = True
    needs_labels = True

    def metrics_of(self, label: Label) -> tuple[Metric, ...]:
        # The recall among all items is 1.
        everything = {each.key for k, each in _RECALLS.items() if k >= len(label.classes)}
        return tuple(metric for metric in self.metrics if metric.key not in everything)

    def measured(self, label: Label, statistics: SplitStatistics) -> "Retrieval":
        found = statistics.features[label.name].values if label.name in statistics.features else None
        if found is None or not found.complete:
            return self
        counts = dict(found.values)
        chosen = np.array([counts.get(name, 0) for name in label.classes], np.float64)
        # No share is 0 or 1: an item that no row chose counts as chosen once, and there is one row more.
        return dataclasses.replace(self, shares=np.maximum(1.0, chosen) / (chosen.sum() + 1.0))

    def split(self, model: keras.Model, *, gather: Gather | None = None) -> tuple[keras.Model, "Retrieval"]:
        queries, items = items_lib.split(model)
        return queries, dataclasses.replace(self, items=items, gather=gather or _alone)

    def logits(self, label: Label) -> int:
        return len(label.classes)

    def losses(self, labels: tf.Tensor, logits: tf.Tensor) -> tf.Tensor:
        if self.items is None or self.items.are_all_negatives:
            scores = logits if self.items is None else self.items(logits)
            return tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=scores)
        return self._losses_in_batch(labels, logits)

    def _losses_in_batch(self, labels: tf.Tensor, queries: tf.Tensor) -> tf.Tensor:
        """Losses against the items of the whole batch, float32 [batch]."""
        ids = self.gather(labels)  # (global batch,)
        _require_others(ids)
        scores = self.items.scores_of(queries, ids)  # (batch, global batch)
        is_own = is_left_out = ids == labels[:, None]
        if self.items.log_q:
            scores -= tf.gather(self._log_probability(tf.size(ids) - 1), ids)
            is_left_out |= _is_repeated(ids)
        nothing = tf.fill(tf.shape(scores), tf.float32.min)
        # Rows that chose the same item have one score, so the largest is the example's own.
        own = tf.reduce_max(tf.where(is_own, scores, nothing), axis=1, keepdims=True)
        logits = tf.concat([own, tf.where(is_left_out, nothing, scores)], axis=1)
        first = tf.zeros_like(labels)
        return tf.nn.sparse_softmax_cross_entropy_with_logits(labels=first, logits=logits)

    def _log_probability(self, others: tf.Tensor) -> tf.Tensor:
        """Log of the probability of each item to be chosen by one of `others` rows, float32 [items]."""
        if self.shares is None:
            raise InputError(
                "--config.model.log_q",
                received="True, and items that the statistics of the train split do not count",
                expected="how often each item was chosen",
                action='Convert again without "statistics": "none" for the label, or set it to False.',
            )
        absent = tf.cast(others, tf.float32) * tf.constant(np.log1p(-self.shares), tf.float32)
        return tf.math.log(-tf.math.expm1(absent))

    def predictions(self, logits: tf.Tensor) -> tf.Tensor:
        """Probabilities by a softmax over all items, float32 [batch, items]."""
        return tf.nn.softmax(logits if self.items is None else self.items(logits))

    def answers(self, label: Label, inputs: Mapping[str, tf.Tensor], logits: tf.Tensor) -> tf.Tensor:
        """The scores of the best items, float32 [batch, k]."""
        return self._best(label, logits)[0]

    def served(
        self, label: Label, inputs: Mapping[str, tf.Tensor], logits: tf.Tensor
    ) -> dict[str, tf.Tensor]:
        """The best items' scores, float32 [batch, k], the best first, and their names, string [batch, k]."""
        scores, at = self._best(label, logits)
        names = tf.gather(tf.constant(label.classes, tf.string), at)
        return {LABEL_TASKS[RETRIEVAL].output: scores, ITEMS: names}

    def served_specs(self, label: Label) -> dict[str, tf.TensorSpec]:
        shape = [None, min(self._k, len(label.classes))]
        dtypes = {LABEL_TASKS[RETRIEVAL].output: tf.float32, ITEMS: tf.string}
        return {name: tf.TensorSpec(shape, dtype) for name, dtype in dtypes.items()}

    @property
    def _k(self) -> int:
        return self.items.k if self.items else _K

    def _best(self, label: Label, logits: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        return item_blocks.best(logits, self._scores(label), self._k)

    def evaluated(
        self, label: Label, inputs: Mapping[str, tf.Tensor], logits: tf.Tensor, labels: tf.Tensor
    ) -> tf.Tensor:
        """See `item_blocks.ranks`: float32 [batch, 3]."""
        return item_blocks.ranks(logits, self._scores(label), labels)

    def _scores(self, label: Label) -> Scores:
        return self.items or Dense(len(label.classes))

    def accumulator(self, label: Label) -> "_Ranks":
        return _Ranks(len(label.classes))


def _is_repeated(ids: tf.Tensor) -> tf.Tensor:
    """Whether the same id stands before: bool [n], of int32 [n]."""
    return tf.reduce_any(
        tf.linalg.band_part(ids[:, None] == ids, -1, 0) & ~tf.eye(tf.size(ids), dtype=tf.bool), axis=1
    )


def _require_others(ids: tf.Tensor) -> None:
    if ids.shape[0] == 1:
        raise InputError(
            "--config.global_batch",
            received="1 example at a time, which is trained against the others of its batch",
            expected="2 or more",
            action="Take a larger batch, or --config.model.negatives=all.",
        )


class _Ranks:
    """Adds up the metrics of examples, which follow from the ranks of the chosen items: see
    pipeline/base/ranks.py.
    """

    def __init__(self, items: int) -> None:
        ranks = np.arange(1, items + 1, dtype=np.float64)
        worth = {each.key: recalled(ranks, k) for k, each in _RECALLS.items() if k < items}
        worth |= {_MRR.key: reciprocal(ranks), _GAIN.key: discounted(ranks, _NDCG)}
        self._before = {key: sums_before(each) for key, each in worth.items()}
        self._sums = dict.fromkeys((LOSS.key, *worth), 0.0)
        self._weight = 0.0

    def update(self, labels: np.ndarray, predictions: np.ndarray, weights: np.ndarray | None = None) -> None:
        weights = np.ones(len(labels)) if weights is None else weights
        logs, better, equal = predictions[:, 0], *predictions[:, 1:].T.astype(np.int64)
        self._weight += float(weights.sum())
        self._sums[LOSS.key] -= float((weights * logs).sum())
        for key, before in self._before.items():
            self._sums[key] += float((weights * mean_of_ties(before, better, equal)).sum())

    def result(self) -> dict:
        return {key: each / self._weight for key, each in self._sums.items()}
