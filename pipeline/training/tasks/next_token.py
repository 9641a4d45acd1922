"""The next token: a model of packed text predicts each token from those before it in its document.

Labels are the tokens themselves, int32 [batch, length], and -1 where none is predicted: the first one of a
document or a row, and padding (`parsing.predicted`). The logits at a place are those of the token after it.

    tokens    5 6 1 7 | 1 8 9 1        1 closes a document; the second one goes on in the next row
    segments  1 1 1 2 | 1 2 2 2
    labels    . 6 1 . | . . 9 1

All means are over predicted tokens, whatever row they are in.
"""

import math
from collections.abc import Mapping

import numpy as np
import tensorflow as tf

from pipeline.data.reading.parsing import predicted
from pipeline.data.schema.feature_types import Label, TokenLabel
from pipeline.training.tasks.task import LOSS, Metric, Task

BYTES = "bytes"  # the tokenizer of one token for each byte

_PERPLEXITY = Metric(key="perplexity", name="perplexity")
_BITS = Metric(key="bits_per_byte", name="bits a byte")
_ACCURACY = Metric(key="accuracy", name="next-token accuracy", is_fraction=True, is_higher_better=True)


class NextToken(Task):
    """A logit for each token of the vocabulary, at each place of a row. The loss is in nats a token."""

    metrics = (LOSS, _PERPLEXITY, _BITS, _ACCURACY)
    logits_rank = 3  # (batch, length, vocabulary)
    has_accuracy = True
    has_weighted_metrics = True

    def metrics_of(self, label: Label) -> tuple[Metric, ...]:
        is_known = isinstance(label, TokenLabel) and label.tokenizer == BYTES
        return tuple(metric for metric in self.metrics if metric is not _BITS or is_known)

    def logits(self, label: TokenLabel) -> int:
        return label.vocabulary_size

    def logits_shape(self, label: TokenLabel) -> tuple[int, ...]:
        return (label.length, label.vocabulary_size)

    def counts(self, labels: tf.Tensor) -> tf.Tensor:
        return tf.reduce_sum(tf.cast(labels >= 0, tf.float32), axis=1)

    def losses(self, labels: tf.Tensor, logits: tf.Tensor) -> tf.Tensor:
        """The mean over a row's predicted tokens, float32 [batch]; 0 where there is none."""
        wanted = tf.maximum(_next(labels), 0)
        losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=wanted, logits=logits)
        return self._row_means(labels, losses)

    def hits(self, labels: tf.Tensor, logits: tf.Tensor) -> tf.Tensor:
        """The part of a row's predicted tokens that were the most probable ones, float32 [batch]."""
        answers = tf.argmax(logits, axis=-1, output_type=tf.int32)
        return self._row_means(labels, tf.cast(answers == _next(labels), tf.float32))

    def _row_means(self, labels: tf.Tensor, values: tf.Tensor) -> tf.Tensor:
        is_predicted = tf.cast(_next(labels) >= 0, tf.float32)
        return tf.math.divide_no_nan(tf.reduce_sum(values * is_predicted, axis=1), self.counts(labels))

    def predictions(self, logits: tf.Tensor) -> tf.Tensor:
        """The most probable token after each place, float32 [batch, length]."""
        return tf.cast(tf.argmax(logits, axis=-1), tf.float32)

    def answers(self, label: TokenLabel, inputs: Mapping[str, tf.Tensor], logits: tf.Tensor) -> tf.Tensor:
        """Log-probabilities in nats, float32 [batch, length, 2].

        They are those of each token, given those before it in its document, and of the one that was the most
        probable in its place. Both are 0 where no token is predicted: a sum over a row counts what it has.
        """
        labels = predicted(*(inputs[name] - 1 for name in label.parts))  # ids of models begin with 1
        logs, wanted = tf.nn.log_softmax(logits), _next(labels)
        own = tf.gather(logs, tf.maximum(wanted, 0), batch_dims=2)
        is_best = tf.argmax(logs, axis=-1, output_type=wanted.dtype) == wanted
        # Among equally likely tokens the first is the answer. If the row has another one of them, `best` is a
        # little above `own`.
        best = tf.where(is_best, own, tf.maximum(tf.reduce_max(logs, axis=-1), own * (1 - 1e-6)))
        both = tf.stack([own, best], axis=-1)
        both = tf.where((wanted >= 0)[:, :, None], both, 0.0)
        return tf.pad(both[:, :-1], [[0, 0], [1, 0], [0, 0]])  # from the place before to the token's own

    def accumulator(self, label: TokenLabel) -> "_TokenLosses":
        return _TokenLosses(is_of_bytes=label.tokenizer == BYTES)


def _next(labels: tf.Tensor) -> tf.Tensor:
    """For each place, the label of the next place, [batch, length]; -1 at the end."""
    return tf.pad(labels[:, 1:], [[0, 0], [0, 1]], constant_values=-1)


class _TokenLosses:
    """Adds up the losses of tokens, and counts those that were the most probable, at their rows' weights."""

    def __init__(self, *, is_of_bytes: bool) -> None:
        self._is_of_bytes = is_of_bytes
        self._weight = self._loss = self._right = 0.0

    def update(self, labels: np.ndarray, predictions: np.ndarray, weights: np.ndarray | None = None) -> None:
        is_predicted = labels >= 0
        own, best = predictions[..., 0], predictions[..., 1]
        each = is_predicted * (1.0 if weights is None else weights[:, None])
        self._weight += float(each.sum())
        self._loss -= float((each * own).sum())
        self._right += float((each * (own >= best)).sum())

    def result(self) -> dict:
        if not self._weight:
            return {"loss": 0.0, "tokens": 0.0}  # rows of one token each
        loss = self._loss / self._weight
        return {
            "loss": loss,
            "perplexity": float(np.exp(loss)),
            **({"bits_per_byte": loss / math.log(2)} if self._is_of_bytes else {}),
            "accuracy": self._right / self._weight,
            "tokens": self._weight,
        }
