"""Evaluation under a strategy: every example of a split exactly once, whatever the number of replicas."""

import functools
import math
from collections.abc import Callable, Mapping

import keras
import numpy as np
import tensorflow as tf

from pipeline.data.damage import naming_damage
from pipeline.data.input import evaluation_batches, evaluation_steps
from pipeline.data.preprocess import Preprocess
from pipeline.data.schema import Schema
from pipeline.data.selection import Selection
from pipeline.training.heads import head_predictions
from pipeline.training.metrics import EvaluationMetrics


class Evaluator:
    """Evaluates the model's current weights on any of `selections`, by its split expression."""

    def __init__(
        self,
        strategy: tf.distribute.Strategy,
        model: keras.Model,
        *,
        schema: Schema,
        selections: Mapping[str, Selection],
        preprocess: Preprocess,
        largest_batch: int,
    ) -> None:
        self._strategy = strategy
        self._label = schema.label
        self._selections = selections
        self._preprocess = preprocess
        self._largest_batch = largest_batch
        self._batches: dict[str, tf.distribute.DistributedDataset] = {}
        self._predict = _distributed(strategy, model, schema.label.task)

    def __call__(self, split: str) -> dict:
        """Metrics over one of the selections: see EvaluationMetrics.result."""
        selection = self._selections[split]
        steps = evaluation_steps(selection.rows, self._even_batch(split))
        metrics = EvaluationMetrics(self._label)
        with naming_damage(selection):
            batches = iter(self._distributed_batches(split))
            # Counted, not run to the end: workers of a cluster must all ask the same number of times.
            for _ in range(steps):
                labels, predictions, mask = self._predict(*next(batches))
                metrics.update(labels.numpy(), predictions.numpy(), mask.numpy())
        return {"split": split, **metrics.result()}

    def _distributed_batches(self, split: str) -> tf.distribute.DistributedDataset:
        # Kept, because building the pipeline takes longer than reading a small split.
        if split not in self._batches:
            batches = functools.partial(
                evaluation_batches,
                self._selections[split],
                self._preprocess,
                global_batch=self._even_batch(split),
            )
            self._batches[split] = self._strategy.distribute_datasets_from_function(
                lambda context: batches(context=context)
            )
        return self._batches[split]

    def _even_batch(self, split: str) -> int:
        """The global batch that takes no more steps than the largest allowed, with the least padding."""
        rows, replicas = self._selections[split].rows, self._strategy.num_replicas_in_sync
        each = rows / evaluation_steps(rows, self._largest_batch)
        return math.ceil(each / replicas) * replicas


def logits_of(
    strategy: tf.distribute.Strategy, model: keras.Model, inputs: dict[str, tf.Tensor]
) -> Callable[[], np.ndarray]:
    """A function () → the model's logits of `inputs`, as one replica computes them."""

    def replica() -> tf.Tensor:
        return model(inputs, training=False)

    @tf.function
    def forward() -> tf.Tensor:
        return strategy.run(replica)

    return lambda: strategy.experimental_local_results(forward())[0].numpy()


def _distributed(strategy: tf.distribute.Strategy, model: keras.Model, task: str) -> Callable:
    """(inputs, labels, mask) per replica → (labels, predictions, mask) of the global batch."""

    def replica(inputs: dict, labels: tf.Tensor, mask: tf.Tensor) -> tuple:
        (predictions,) = head_predictions(task, model(inputs, training=False)).values()
        return labels, predictions, mask

    @tf.function
    def predict(inputs: dict, labels: tf.Tensor, mask: tf.Tensor) -> tuple:
        parts = strategy.run(replica, args=(inputs, labels, mask))
        return tuple(strategy.gather(part, axis=0) for part in parts)

    return predict
