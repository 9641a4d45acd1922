"""Metrics of an evaluation: the training loop's own and that of an exported model both use these."""

import numpy as np

from pipeline.data.schema.kinds import Label
from pipeline.training.tasks.registry import task_of


class EvaluationMetrics:
    """Takes batches of labels and predictions, gives a summary that JSON can hold."""

    def __init__(self, label: Label) -> None:
        self._label = label
        self._examples = 0
        self._accumulator = task_of(label).accumulator(label)

    def update(self, labels: np.ndarray, predictions: np.ndarray, mask: np.ndarray | None = None) -> None:
        """Adds a batch.

        Args:
          labels: [batch], class indices or values.
          predictions: [batch, …], as the task's `predictions` gives them.
          mask: [batch], 0 where an example is padding; None: none is.
        """
        keep = slice(None) if mask is None else np.asarray(mask) > 0
        kept = np.asarray(labels)[keep]
        self._examples += len(kept)
        self._accumulator.update(kept, np.asarray(predictions, np.float64)[keep])

    def numbers(self) -> dict[str, float]:
        """Those of `result` that are one number each: what a callback is told."""
        return {name: value for name, value in self.result().items() if isinstance(value, float)}

    def result(self) -> dict:
        """The metrics over all examples so far; `loss` is in nats, or squared units of the label."""
        summary = {"task": self._label.task, "examples": self._examples}
        if self._label.classes:
            summary["classes"] = list(self._label.classes)
        return summary | (self._accumulator.result() if self._examples else {})
