"""What a task asks of a model's logits: how many, the loss, and the predictions made of them."""

import keras
import tensorflow as tf

from pipeline.data.features import Label


def outputs(label: Label) -> int:
    """Numbers the model gives for each example: one logit, one for each class, or one value."""
    return len(label.classes) if label.task == "multiclass" else 1


def losses(task: str, labels: tf.Tensor, logits: tf.Tensor) -> tf.Tensor:
    """Loss of each example, float32 [batch]: cross-entropy in nats, or squared error."""
    if task == "multiclass":
        return keras.losses.sparse_categorical_crossentropy(labels, logits, from_logits=True)
    targets = tf.cast(labels, tf.float32)[:, None]  # (batch, 1)
    if task == "binary":
        return keras.losses.binary_crossentropy(targets, logits, from_logits=True)
    return keras.losses.mean_squared_error(targets, logits)


def hits(task: str, labels: tf.Tensor, logits: tf.Tensor) -> tf.Tensor:
    """1 where the most probable class is the right one, float32 [batch]; all 0 for regression."""
    if task == "multiclass":
        return tf.cast(tf.argmax(logits, axis=-1, output_type=tf.int32) == labels, tf.float32)
    if task == "binary":
        return tf.cast((logits[:, 0] > 0) == (labels == 1), tf.float32)
    return tf.zeros_like(logits[:, 0])


def head_predictions(task: str, logits: tf.Tensor) -> dict[str, tf.Tensor]:
    """What the model tells the outside world.

    Args:
      logits: float32 [batch, outputs].

    Returns:
      `probabilities` float32 [batch, classes], a binary task's too, or `value` float32 [batch].
    """
    if task == "multiclass":
        return {"probabilities": tf.nn.softmax(logits)}
    if task == "binary":
        # Not 1 - p: near 1 that keeps no digits of the rarer class.
        return {"probabilities": tf.nn.sigmoid(tf.concat([-logits, logits], axis=1))}
    return {"value": logits[:, 0]}
