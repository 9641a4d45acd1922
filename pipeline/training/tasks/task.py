"""A task: everything that a run, an evaluation, an export and the report need, in one object.

A task turns a model's logits into losses, predictions and metrics. Its rules for the label itself (dtype,
classes) are in pipeline/data/schema/feature_types.py, which Beam workers read without TensorFlow.
"""

import abc
import dataclasses
from collections.abc import Callable, Mapping
from typing import ClassVar, Protocol

import keras
import numpy as np
import tensorflow as tf

from pipeline.data.dataset.statistics import SplitStatistics
from pipeline.data.schema.feature_types import LABEL_TASKS, Label


@dataclasses.dataclass(frozen=True, kw_only=True)
class Metric:
    """A number of `Accumulator.result` that the report shows as a tile and as a curve."""

    key: str
    name: str
    is_fraction: bool = False  # values are 0 … 1, written with four digits
    is_higher_better: bool = False


LOSS = Metric(key="loss", name="loss")  # the training loop logs it for every task


# Whole numbers of a replica's examples, int32 [batch] → those of all replicas, int32 [global batch].
Gather = Callable[[tf.Tensor], tf.Tensor]


class Accumulator(Protocol):
    """Adds up an evaluation on the host, in float64, so that it is exact under every strategy."""

    def update(self, labels: np.ndarray, predictions: np.ndarray, weights: np.ndarray | None = None) -> None:
        """Adds examples: labels [n, *label.shape], and predictions as `Task.evaluated` gives them, float64.

        Args:
          weights: float64 [n], at least 0; None: all are 1. They are given only if `has_weighted_metrics`.
        """

    def result(self) -> dict:
        """Metrics over all examples so far, of which there is at least one, in a form for JSON. `loss` is
        among them.
        """


class Task(abc.ABC):
    """One kind of prediction. Tasks hold no state; `TASKS` in registry.py names them.

    The report shows `metrics`, the most informative first. A batch's logits have `logits_rank` axes; in
    training they may have one more, the second, of a model's members. Where `has_accuracy` is True, `hits`
    counts right answers during training. Where `can_be_smoothed` is True, labels can be smoothed,
    by `losses_of_no_class`. Where `has_weighted_metrics` is True, its accumulator takes weights. Where
    `needs_labels` is True, metrics do not follow from the answers: an evaluation asks the model about the
    labels.
    """

    metrics: ClassVar[tuple[Metric, ...]]
    logits_rank: ClassVar[int] = 2
    has_accuracy: ClassVar[bool] = False
    can_be_smoothed: ClassVar[bool] = False
    has_weighted_metrics: ClassVar[bool] = False
    needs_labels: ClassVar[bool] = False

    def metrics_of(self, label: Label) -> tuple[Metric, ...]:
        """The metrics of a label: `metrics`, and what follows from its classes or targets."""
        del label
        return self.metrics

    def logged(self, label: Label) -> tuple[str, ...]:
        """The numbers of `Accumulator.result`, which a callback can monitor."""
        return tuple(dict.fromkeys((LOSS.key, *(metric.key for metric in self.metrics_of(label)))))

    def measured(self, label: Label, statistics: SplitStatistics) -> "Task":
        """This task with what its losses need of the statistics of the train split."""
        del label, statistics
        return self

    def of_batch(self, model: keras.Model) -> Callable[..., tf.Tensor]:
        """The model as a function of a batch's inputs and `training`.

        It is the model itself, unless an example is several rows.
        """
        return model

    def split(
        self, model: keras.Model, *, gather: Gather | None = None
    ) -> tuple[Callable[..., tf.Tensor], "Task"]:
        """Returns the part of a model that runs for each example, and a task that takes what this part gives.

        The part is the whole model, which gives logits, unless the task computes the rest in a better way.

        Args:
          gather: gathers what all replicas of a training step have; None: there are no other replicas.
        """
        del gather
        return model, self

    @abc.abstractmethod
    def logits(self, label: Label) -> int:
        """Numbers that the model gives for each example."""

    def logits_shape(self, label: Label) -> tuple[int, ...]:
        """Static shape of the logits of one example; the last size is `logits`."""
        return (self.logits(label),)

    def counts(self, labels: tf.Tensor) -> tf.Tensor | None:
        """What each example counts in the mean loss, float32 [batch]; None: all count the same.

        A batch's loss is the mean of its examples' losses, weighted by this, over all replicas together.
        """
        del labels

    @abc.abstractmethod
    def losses(self, labels: tf.Tensor, logits: tf.Tensor) -> tf.Tensor:
        """Loss of each example, float32 [batch].

        Args:
          labels: [batch, *label.shape], int32 class indices or float32 values.
          logits: float32 [batch, logits].
        """

    def losses_of_no_class(self, logits: tf.Tensor) -> tf.Tensor:
        """Loss of each example if its label were spread equally over all classes: float32 [batch]."""
        raise NotImplementedError(f"{type(self).__name__} has no labels to smooth")

    def hits(self, labels: tf.Tensor, logits: tf.Tensor) -> tf.Tensor:
        """1 where the answer is right, else 0: float32 [batch]. All 0 for a task without accuracy."""
        del labels
        return tf.zeros_like(logits[:, 0])

    @abc.abstractmethod
    def predictions(self, logits: tf.Tensor) -> tf.Tensor:
        """Returns the model's answers, float32 [batch, …], from logits float32 [batch, logits]."""

    def answers(self, label: Label, inputs: Mapping[str, tf.Tensor], logits: tf.Tensor) -> tf.Tensor:
        """What an export answers, float32 [batch, *label.answer_shape]: the predictions.

        Args:
          inputs: the model's, where answers depend on them.
        """
        del label, inputs
        return self.predictions(logits)

    def served(
        self, label: Label, inputs: Mapping[str, tf.Tensor], logits: tf.Tensor
    ) -> dict[str, tf.Tensor]:
        """What an export answers, [batch, …] each, by the names of its outputs; `answers` among them."""
        return {LABEL_TASKS[label.task].output: self.answers(label, inputs, logits)}

    def served_specs(self, label: Label) -> dict[str, tf.TensorSpec]:
        """Dtypes and shapes of `served`."""
        return {LABEL_TASKS[label.task].output: tf.TensorSpec([None, *label.answer_shape], tf.float32)}

    def evaluated(
        self, label: Label, inputs: Mapping[str, tf.Tensor], logits: tf.Tensor, labels: tf.Tensor
    ) -> tf.Tensor:
        """What the accumulator takes, float32 [batch, …]; unless a task overrides this, the answers."""
        del labels
        return self.answers(label, inputs, logits)

    @abc.abstractmethod
    def accumulator(self, label: Label) -> Accumulator:
        """Makes a new accumulator, which has seen no examples."""
