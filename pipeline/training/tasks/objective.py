"""The training objective: a task's losses, with smoothed labels, weighted by class and by example."""

import dataclasses
from collections.abc import Callable

import keras
import tensorflow as tf

from pipeline.data.input.training import Mixed, Plain, TargetsOfBatch, own_of
from pipeline.training.tasks.task import Gather, Task

# (labels [batch, *label.shape], logits float32 [batch, logits]) → losses, float32 [batch].
LossOfExamples = Callable[[tf.Tensor, tf.Tensor], tf.Tensor]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Objective:
    """A task's losses as training uses them; evaluations use the task's own losses.

    Attributes:
      label_smoothing: the part of each label, from 0 to below 1, that is spread evenly over all classes:
        C. Szegedy and others, "Rethinking the Inception Architecture for Computer Vision" (2016), section 7.
      class_weights: weights of the losses, one for each class; none: all are 1.
      units: units in which a loss of several targets is squared, one for each; none: the labels' own.
      own: the loss in place of the task's; None: the task's.
      mean_weight: the weight that counts as 1, above 0, if each example has a weight of its own; then targets
        are (labels, weights). None: targets are labels.
    """

    task: Task
    label_smoothing: float = 0.0
    class_weights: tuple[float, ...] = ()
    units: tuple[float, ...] = ()
    own: LossOfExamples | None = None
    mean_weight: float | None = None

    @property
    def has_accuracy(self) -> bool:
        """Whether the task has classes: see Task."""
        return self.task.has_accuracy

    def of_batch(self, model: keras.Model) -> Callable[..., tf.Tensor]:
        """The model as a function of a batch's inputs: see Task."""
        return self.task.of_batch(model)

    def split(
        self, model: keras.Model, *, gather: Gather | None = None
    ) -> tuple[Callable[..., tf.Tensor], "Objective"]:
        """The part of a model that is computed for each example, and the objective for it: see Task."""
        part, task = self.task.split(model, gather=gather)
        return part, dataclasses.replace(self, task=task)

    def losses(self, targets: TargetsOfBatch, logits: tf.Tensor) -> tf.Tensor:
        """Returns each example's loss, float32 [batch].

        Where examples are mixed, both labels count by their shares: H. Zhang and others, "mixup: Beyond
        Empirical Risk Minimization" (2018), whose cross-entropy is linear in the label.

        Args:
          logits: float32 [batch, logits]; of a model of several members, in training, [batch, members,
            logits]: the loss is the mean of the members' losses, so that each learns by its own.
        """
        if not self._is_of_members(logits):
            return _mixed(lambda plain: self._losses(plain, logits), targets)
        members = logits.shape[1]
        alike = tf.nest.map_structure(lambda each: tf.repeat(each, members, axis=0), targets)
        losses = self.losses(alike, tf.reshape(logits, [-1, *logits.shape[2:]]))  # (batch * members,)
        return tf.reduce_mean(tf.reshape(losses, [-1, members]), axis=1)

    def _is_of_members(self, logits: tf.Tensor) -> bool:
        return len(logits.shape) > self.task.logits_rank

    def _losses(self, targets: Plain, logits: tf.Tensor) -> tf.Tensor:
        """Computes losses of smoothed labels as means of two losses, because a cross-entropy is linear in the
        label.
        """
        labels = targets if self.mean_weight is None else targets[0]
        if self.units:
            labels, logits = labels / self.units, logits / self.units
        losses = (self.own or self.task.losses)(labels, logits)
        if self.label_smoothing:
            evenly = self.task.losses_of_no_class(logits)
            losses = (1 - self.label_smoothing) * losses + self.label_smoothing * evenly
        if self.class_weights:
            losses *= tf.gather(tf.constant(self.class_weights, tf.float32), labels)
        if self.mean_weight is not None:
            losses *= targets[1] / self.mean_weight
        return losses

    def counts(self, targets: TargetsOfBatch) -> tf.Tensor | None:
        """What each example counts in the mean, float32 [batch]; None: all count the same."""
        return self.task.counts(self.labels(targets))

    def mean_loss(self, targets: TargetsOfBatch, logits: tf.Tensor) -> tf.Tensor:
        """The loss of a batch, float32 []."""
        losses, counts = self.losses(targets, logits), self.counts(targets)
        return tf.reduce_mean(losses) if counts is None else weighted_mean(losses, counts)

    def unit(self, spread: float | tuple[float, ...]) -> float:
        """Returns the unit in which the loss is squared, where labels have this spread.

        It is 1 for an own loss, and where `units` divide the errors already.
        """
        return 1.0 if self.own or self.units or isinstance(spread, tuple) else spread

    def labels(self, targets: TargetsOfBatch) -> tf.Tensor:
        """The examples' own labels, [batch, *label.shape]."""
        own = own_of(targets)
        return own if self.mean_weight is None else own[0]

    def hits(self, targets: TargetsOfBatch, logits: tf.Tensor) -> tf.Tensor:
        """The task's hits, float32 [batch]; for mixed examples, both labels count by their shares.

        If the model has several members, the mean of their logits counts.
        """
        if self._is_of_members(logits):
            logits = tf.reduce_mean(logits, axis=1)
        return _mixed(
            lambda plain: self.task.hits(plain if self.mean_weight is None else plain[0], logits), targets
        )

    def predictions(self, logits: tf.Tensor) -> tf.Tensor:
        """The task's predictions, float32 [batch, …]."""
        return self.task.predictions(logits)


def weighted_mean(values: tf.Tensor, weights: tf.Tensor) -> tf.Tensor:
    """The mean over all axes, 0 where nothing weighs."""
    return tf.math.divide_no_nan(tf.reduce_sum(values * weights), tf.reduce_sum(weights))


def _mixed(of: Callable[[Plain], tf.Tensor], targets: TargetsOfBatch) -> tf.Tensor:
    """Returns `of(targets)`, float32 [batch]; for mixed examples the mean for both labels, by their
    shares.
    """
    if not isinstance(targets, Mixed):
        return of(targets)
    return targets.shares * of(targets.own) + (1.0 - targets.shares) * of(targets.other)
