"""The tasks that a label can name."""

from collections.abc import Mapping

import numpy as np

from pipeline.base.errors import InputError
from pipeline.data.schema.feature_types import Label
from pipeline.training.tasks.classification import Binary, Multiclass, Regression
from pipeline.training.tasks.task import Task

TASKS: Mapping[str, Task] = {"binary": Binary(), "multiclass": Multiclass(), "regression": Regression()}


def task_of(label: Label) -> Task:
    """The task that the label names; raises InputError where TASKS does not have it."""
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
    """Takes batches of labels and predictions, gives a summary that JSON can hold."""

    def __init__(self, label: Label) -> None:
        self._label = label
        self._examples = 0
        self._accumulator = task_of(label).accumulator(label)
        self._weighted = task_of(label).accumulator(label)
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
          labels: [batch], class indices or values.
          predictions: [batch, …], as the task's `predictions` gives them.
          mask: [batch], 0 where an example is padding; None: none is.
          weights: [batch], of the examples; None: they have none.
        """
        keep = slice(None) if mask is None else np.asarray(mask) > 0
        kept, predicted = np.asarray(labels)[keep], np.asarray(predictions, np.float64)[keep]
        self._examples += len(kept)
        self._accumulator.update(kept, predicted)
        if weights is not None and task_of(self._label).has_weighted_metrics:
            weighing = np.asarray(weights, np.float64)[keep]
            self._weighted.update(kept, predicted, weighing)
            self._weight += float(weighing.sum())

    def numbers(self) -> dict[str, float]:
        """The numbers in `result`, which callbacks receive."""
        return {name: value for name, value in self.result().items() if isinstance(value, float)}

    def result(self) -> dict:
        """The metrics over all examples so far; `loss` is in nats, or squared units of the label.

        Where examples have weights, the numbers are there twice: the second time with them, as `weighted_…`.
        """
        summary = {"task": self._label.task, "examples": self._examples}
        if self._label.classes:
            summary["classes"] = list(self._label.classes)
        plain = self._accumulator.result() if self._examples else {}
        return summary | plain | self._weighted_numbers()

    def _weighted_numbers(self) -> dict[str, float]:
        found = self._weighted.result() if self._weight else {}
        return {f"{WEIGHTED}{name}": value for name, value in found.items() if isinstance(value, float)}
