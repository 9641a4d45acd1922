"""What training minimises: the losses of a task, of smoothed labels, weighted by class and by example."""

import dataclasses

import tensorflow as tf

from pipeline.data.input.targets import TargetsOfBatch
from pipeline.training.tasks.task import Task


@dataclasses.dataclass(frozen=True, kw_only=True)
class Objective:
    """A task's losses as training takes them. Evaluations take the task's own.

    Attributes:
      label_smoothing: the part of each label, from 0 to below 1, that is spread evenly over all classes:
        C. Szegedy and others, "Rethinking the Inception Architecture for Computer Vision" (2016), section 7.
      class_weights: of the losses, one for each class; none: all are 1.
      mean_weight: what counts as a weight of 1, above 0, where each example has a weight of its own: then
        targets are (labels, weights). None: they are labels.
    """

    task: Task
    label_smoothing: float = 0.0
    class_weights: tuple[float, ...] = ()
    mean_weight: float | None = None

    def losses(self, targets: TargetsOfBatch, logits: tf.Tensor) -> tf.Tensor:
        """Of each example, float32 [batch]; logits: float32 [batch, logits].

        A cross-entropy is linear in the label, so that of a smoothed one is a mean of two.
        """
        labels = self.labels(targets)
        losses = self.task.losses(labels, logits)
        if self.label_smoothing:
            evenly = self.task.losses_of_no_class(logits)
            losses = (1 - self.label_smoothing) * losses + self.label_smoothing * evenly
        if self.class_weights:
            losses *= tf.gather(tf.constant(self.class_weights, tf.float32), labels)
        if self.mean_weight is not None:
            losses *= targets[1] / self.mean_weight
        return losses

    def labels(self, targets: TargetsOfBatch) -> tf.Tensor:
        """The labels among the targets, [batch]."""
        return targets if self.mean_weight is None else targets[0]

    def hits(self, targets: TargetsOfBatch, logits: tf.Tensor) -> tf.Tensor:
        """The task's own, float32 [batch]."""
        return self.task.hits(self.labels(targets), logits)

    def predictions(self, logits: tf.Tensor) -> tf.Tensor:
        """The task's own, float32 [batch, …]."""
        return self.task.predictions(logits)
