"""What training minimises: the losses of a task, of smoothed labels and weighted by class."""

import dataclasses

import tensorflow as tf

from pipeline.training.tasks.task import Task


@dataclasses.dataclass(frozen=True, kw_only=True)
class Objective:
    """A task's losses as training takes them. Evaluations take the task's own.

    Attributes:
      label_smoothing: the part of each label, from 0 to below 1, that is spread evenly over all classes:
        C. Szegedy and others, "Rethinking the Inception Architecture for Computer Vision" (2016), section 7.
      class_weights: of the losses, one for each class; none: all are 1.
    """

    task: Task
    label_smoothing: float = 0.0
    class_weights: tuple[float, ...] = ()

    def losses(self, labels: tf.Tensor, logits: tf.Tensor) -> tf.Tensor:
        """Of each example, float32 [batch]; labels: [batch]; logits: float32 [batch, logits].

        A cross-entropy is linear in the label, so that of a smoothed one is a mean of two.
        """
        losses = self.task.losses(labels, logits)
        if self.label_smoothing:
            evenly = self.task.losses_of_no_class(logits)
            losses = (1 - self.label_smoothing) * losses + self.label_smoothing * evenly
        if self.class_weights:
            losses *= tf.gather(tf.constant(self.class_weights, tf.float32), labels)
        return losses

    def hits(self, labels: tf.Tensor, logits: tf.Tensor) -> tf.Tensor:
        """The task's own, float32 [batch]."""
        return self.task.hits(labels, logits)

    def predictions(self, logits: tf.Tensor) -> tf.Tensor:
        """The task's own, float32 [batch, …]."""
        return self.task.predictions(logits)
