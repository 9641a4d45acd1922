"""Evaluation under a strategy: every example of a split exactly once, whatever the number of replicas."""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import MappingProxyType

import keras
import numpy as np
import tensorflow as tf

from pipeline.data.dataset.selection import Selection
from pipeline.data.input.batches import evaluation_batches, evaluation_steps
from pipeline.data.input.training import Targets, TargetsOfBatch
from pipeline.data.integrity.damage import naming_damage
from pipeline.data.preprocessing.preprocess import Preprocess
from pipeline.data.reading import sharding
from pipeline.data.schema.feature_types import Label
from pipeline.data.schema.schema import Schema
from pipeline.training.engine import batches
from pipeline.training.engine.batches import distributed
from pipeline.training.tasks.metrics import Accumulator
from pipeline.training.tasks.registry import EvaluationMetrics, task_of

# Batches of a split that stay in memory: to begin reading takes 0.1 s of a processor each time, which was
# half of the evaluation of 200 rows.
_KEPT_BYTES = 64 << 20  # 64 MiB
Seen = Callable[[np.ndarray, np.ndarray, np.ndarray], None]  # (labels, predictions, mask), [batch, …] each


def ignored(labels: np.ndarray, predictions: np.ndarray, mask: np.ndarray) -> None:
    """Does nothing with a global batch."""


class Evaluator:
    """Evaluates the model's current weights on any of `selections`, by its split expression.

    Args:
      metrics: metrics besides the task's; see EvaluationMetrics.
    """

    def __init__(
        self,
        strategy: tf.distribute.Strategy,
        model: keras.Model,
        *,
        schema: Schema,
        selections: Mapping[str, Selection],
        preprocess: Preprocess,
        largest_batch: int,
        targets: Targets = Targets(),
        metrics: Mapping[str, Callable[[], Accumulator]] = MappingProxyType({}),
    ) -> None:
        self._strategy = strategy
        self._label, self._metrics = schema.label, metrics
        self._selections = selections
        self._preprocess, self._targets = preprocess, targets
        replicas = strategy.num_replicas_in_sync
        self._largest_batch = max(1, largest_batch // replicas) * replicas
        self._batches: dict[str, Iterable] = {}
        self._kept: dict[str, list[tuple]] = {}  # the batches of splits that fit in memory
        self._hosts = 1
        self._model = model
        self._predict: dict[str, Callable] = {}  # one for each split, because their batches differ in size

    @property
    def hosts(self) -> int:
        """The number of hosts that read the batches of the last evaluation."""
        return self._hosts

    def __call__(
        self,
        split: str,
        hooks: keras.callbacks.CallbackList | None = None,
        *,
        seen: Seen = ignored,
    ) -> dict:
        """Metrics over one of the selections: see EvaluationMetrics.result.

        Args:
          hooks: callbacks to call, as `Model.evaluate` does.
          seen: receives labels, predictions and mask of each global batch.
        """
        selection = self._selections[split]
        steps = evaluation_steps(selection.rows, self._even_batch(split))
        metrics, predict = EvaluationMetrics(self._label, self._metrics), self._predicting(split)
        with naming_damage(selection):
            batches = self._taken(split, steps)
            for _ in observed(range(steps), hooks, metrics):
                found, predictions, mask = predict(*next(batches))
                weights = self._targets.weights_of(found)
                labels = self._targets.labels_of(found)
                batch = labels.numpy(), predictions.numpy(), mask.numpy()
                metrics.update(*batch, None if weights is None else weights.numpy())
                seen(*batch)
        return {"split": split, **metrics.result()}

    def _taken(self, split: str, steps: int) -> Iterator[tuple]:
        """Yields the batches of a split; from the second time on out of memory, where they are small."""
        kept = self._kept.get(split)
        if kept is not None:
            yield from kept
            return
        batches, taken = iter(self._distributed_batches(split)), []
        # Counted, not run to the end: workers of a cluster must all ask the same number of times.
        for _ in range(steps):
            batch = next(batches)
            if steps * self._bytes(batch) <= _KEPT_BYTES:
                taken.append(batch)
            if len(taken) == steps:
                self._kept[split] = taken
            yield batch

    def _bytes(self, batch: tuple) -> int:
        """Counts the bytes of this host's share of a batch."""
        parts = [self._strategy.experimental_local_results(each) for each in tf.nest.flatten(batch)]
        return sum(part.dtype.size * math.prod(part.shape) for each in parts for part in each)

    def _distributed_batches(self, split: str) -> Iterable:
        # The pipeline is kept, because building it takes longer than reading a small split.
        if split not in self._batches:
            self._batches[split] = distributed(
                self._strategy, lambda context: self._host_batches(split, context)
            )
        return self._batches[split]

    def _host_batches(self, split: str, context: tf.distribute.InputContext) -> tf.data.Dataset:
        share = sharding.share_of_context(context, global_batch=self._even_batch(split))
        self._hosts = share.shard_count
        return evaluation_batches(
            self._selections[split], self._preprocess, share=share, targets=self._targets
        )

    def _predicting(self, split: str) -> Callable:
        if split not in self._predict:
            self._predict[split] = _predicting(
                self._strategy, self._model, self._label, self._targets, thing=f"evaluation of '{split}'"
            )
        return self._predict[split]

    def _even_batch(self, split: str) -> int:
        """The smallest global batch that needs no more steps than the largest allowed one, so that padding is
        least.
        """
        rows, replicas = self._selections[split].rows, self._strategy.num_replicas_in_sync
        each = rows / evaluation_steps(rows, self._largest_batch)
        return math.ceil(each / replicas) * replicas


def logits_of(
    strategy: tf.distribute.Strategy, model: keras.Model, inputs: dict[str, tf.Tensor]
) -> Callable[[], np.ndarray]:
    """A function () → logits of `inputs`, float32 [batch, outputs], as one replica computes them.

    Where a model gives logits for each token of a row, they are those of the last one: all of them would be
    gigabytes.
    """

    def replica() -> tf.Tensor:
        logits = model(inputs, training=False)
        return logits[:, -1] if logits.shape.rank == 3 else logits

    @tf.function(autograph=False)
    def forward() -> tf.Tensor:
        return strategy.run(replica)

    return lambda: strategy.experimental_local_results(forward())[0].numpy()


def _predicting(
    strategy: tf.distribute.Strategy, model: keras.Model, label: Label, targets: Targets, *, thing: str
) -> Callable:
    """(inputs, targets, mask) per replica → (targets, predictions, mask) of the global batch."""
    part, task = task_of(label).split(model)

    def replica(inputs: dict, found: TargetsOfBatch, mask: tf.Tensor) -> tuple:
        logits, labels = part(inputs, training=False), targets.labels_of(found)
        return found, task.evaluated(label, inputs, logits, labels), mask

    def predict(inputs: dict, found: TargetsOfBatch, mask: tf.Tensor) -> tuple:
        parts = strategy.run(replica, args=(inputs, found, mask))
        return tf.nest.map_structure(lambda part: strategy.gather(part, axis=0), parts)

    return tf.function(batches.traced_once(predict, thing=thing), autograph=False)


# --- Keras callbacks of an evaluation, as `Model.evaluate` calls them.


def observed(
    steps: Iterable[int], hooks: keras.callbacks.CallbackList | None, metrics: EvaluationMetrics
) -> Iterator[int]:
    """Yields the steps; calls the hooks `on_test_*` around each step, and around all.

    Args:
      metrics: the metrics to which the caller's loop adds the examples of each step.
    """
    if hooks is None:
        yield from steps
        return
    hooks.on_test_begin()
    for step in steps:
        hooks.on_test_batch_begin(step)
        yield step
        hooks.on_test_batch_end(step, _numbers(hooks, "on_test_batch_end", metrics))
    hooks.on_test_end(_numbers(hooks, "on_test_end", metrics))


def _numbers(
    hooks: keras.callbacks.CallbackList, name: str, metrics: EvaluationMetrics
) -> dict[str, float] | None:
    """Returns the logs for the hook; None if no callback has the hook: computing an ROC AUC after every batch
    is slow.
    """
    base = getattr(keras.callbacks.Callback, name)
    is_heard = any(getattr(type(callback), name) is not base for callback in hooks.callbacks)
    return metrics.numbers() if is_heard else None
