"""Losses and accuracies in Keras's form, for `fit`, of tasks that Keras has none for."""

import keras
import tensorflow as tf


class OfMembers(keras.losses.Loss):
    """The mean of the members' cross-entropies, of labels [batch] and logits [batch, members, 1]."""

    def call(self, labels: tf.Tensor, logits: tf.Tensor) -> tf.Tensor:
        alike = tf.broadcast_to(tf.cast(labels, tf.float32)[:, None, None], tf.shape(logits))
        return keras.losses.binary_crossentropy(alike, logits, from_logits=True)


class AccuracyOfMembers(keras.metrics.BinaryAccuracy):
    """The accuracy of the members' mean logit, in training."""

    def __init__(self, name: str = "accuracy") -> None:
        super().__init__(name=name, threshold=0.0)

    def update_state(
        self, labels: tf.Tensor, logits: tf.Tensor, sample_weight: tf.Tensor | None = None
    ) -> None:
        super().update_state(labels, tf.reduce_mean(logits, axis=1), sample_weight)


class OfNextToken(keras.losses.Loss):
    """The mean over predicted tokens, of labels [batch, length] and logits [batch, length, tokens]; -1 is a
    label that is not predicted.
    """

    def call(self, labels: tf.Tensor, logits: tf.Tensor) -> tf.Tensor:
        return keras.losses.sparse_categorical_crossentropy(
            following(labels), logits, from_logits=True, ignore_class=-1
        )


class AccuracyOfNextToken(keras.metrics.Mean):
    """The part of the predicted tokens that were the most probable ones."""

    def update_state(
        self, labels: tf.Tensor, logits: tf.Tensor, sample_weight: tf.Tensor | None = None
    ) -> None:
        wanted = following(labels)
        is_right = tf.argmax(logits, axis=-1, output_type=wanted.dtype) == wanted
        super().update_state(is_right, tf.cast(wanted >= 0, tf.float32))


def following(labels: tf.Tensor) -> tf.Tensor:
    """For each place, the label of the next place, [batch, length]; -1 at the end."""
    return tf.pad(labels[:, 1:], [[0, 0], [0, 1]], constant_values=-1)
