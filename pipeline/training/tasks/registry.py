"""The tasks that a label can name."""

from collections.abc import Callable, Mapping
from types import MappingProxyType

import numpy as np

from pipeline.base.errors import InputError
from pipeline.data.schema.feature_types import Label
from pipeline.training.tasks.classification import Binary, Multiclass, Regression
from pipeline.training.tasks.metrics import Accumulator
from pipeline.training.tasks.multioutput import Multilabel, Multitarget
from pipeline.training.tasks.next_token import NextToken
from pipeline.training.tasks.ranking import Ranking
from pipeline.training.tasks.retrieval import Retrieval
from pipeline.training.tasks.task import Task

TASKS: Mapping[str, Task] = {
    "binary": Binary(),
    "multiclass": Multiclass(),
    "multilabel": Multilabel(),
    "regression": Regression(),
    "multitarget": Multitarget(),
    "next_token": NextToken(),
    "retrieval": Retrieval(),
    "ranking": Ranking(),
}


def task_of(label: Label) -> Task:
    """The task that the label names; raises InputError if TASKS does not have it."""
    if label.task not in TASKS:
        raise InputError(
            f"schema feature '{label.name}', field 'task'",
            received=repr(label.task),
            expected=f"a task that can be trained: {', '.join(TASKS)}",
            action="Add its object to TASKS in pipeline/training/tasks/registry.py, or change the label.",
        )
    return TASKS[label.task]


# --- Metrics of an evaluation, in the training loop and of an exported model.


WEIGHTED = "weighted_"  # prefix of a metric in which each example has its own weight


class EvaluationMetrics:
    """Takes batches of labels and predictions, gives a summary that JSON can hold.

    Args:
      more: functions that make further accumulators besides the task's, by name.
    """

    def __init__(
        self, label: Label, more: Mapping[str, Callable[[], Accumulator]] = MappingProxyType({})
    ) -> None:
        self._label = label
        self._examples = 0
        self._accumulator = task_of(label).accumulator(label)
        self._weighted = task_of(label).accumulator(label)
        self._more, self._weighted_more = ({key: make() for key, make in more.items()} for _ in range(2))
        self._weight = 0.0

    def update(
        self,
        labels: np.ndarray,
        predictions: np.ndarray,
        mask: np.ndarray | None = None,
        weights: np.ndarray | None = None,
    ) -> None:
        """Adds a batch.

        Args:
          labels: [batch, *label.shape], class indices or values.
          predictions: [batch, …], as the task's `evaluated` gives them.
          mask: [batch], 0 where an example is padding; None: none is.
          weights: [batch], weights of the examples; None: they have none.
        """
        keep = slice(None) if mask is None else np.asarray(mask) > 0
        kept, predicted = np.asarray(labels)[keep], np.asarray(predictions, np.float64)[keep]
        self._examples += len(kept)
        self._accumulator.update(kept, predicted)
        for each in self._more.values():
            each.update(kept, predicted, np.ones(len(kept)))
        if weights is not None and task_of(self._label).has_weighted_metrics:
            weighing = np.asarray(weights, np.float64)[keep]
            self._weighted.update(kept, predicted, weighing)
            for each in self._weighted_more.values():
                each.update(kept, predicted, weighing)
            self._weight += float(weighing.sum())

    def numbers(self) -> dict[str, float]:
        """The numbers in `result`, which callbacks receive."""
        return {name: value for name, value in self.result().items() if isinstance(value, float)}

    def result(self) -> dict:
        """The metrics over all examples so far; `loss` is in nats, or squared units of the label.

        If examples have weights, each number is there twice, the second time with weights, as `weighted_…`.
        """
        summary = {"task": self._label.task, "examples": self._examples}
        if self._label.classes and not self._label.is_retrieval:  # items may be very many
            summary["classes"] = list(self._label.classes)
        plain = self._accumulator.result() | _numbers(self._more) if self._examples else {}
        return summary | plain | self._weighted_numbers()

    def _weighted_numbers(self) -> dict[str, float]:
        found = self._weighted.result() | _numbers(self._weighted_more) if self._weight else {}
        return {f"{WEIGHTED}{name}": value for name, value in found.items() if isinstance(value, float)}


def _numbers(accumulators: Mapping[str, Accumulator]) -> dict[str, float]:
    found = {key: each.result() for key, each in accumulators.items()}
    return {key: value for key, value in found.items() if value is not None}
