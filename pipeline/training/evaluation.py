"""Evaluation under a strategy: every example of a split exactly once, whatever the number of replicas."""

import functools
import math
from collections.abc import Callable

import keras
import numpy as np
import tensorflow as tf

from pipeline.data import reader
from pipeline.data.input import evaluation_batches, evaluation_steps
from pipeline.data.manifest import Dataset
from pipeline.data.preprocess import Preprocess
from pipeline.training.heads import head_predictions
from pipeline.training.metrics import EvaluationMetrics


class Evaluator:
    """Evaluates the model's current weights on any split of a dataset."""

    def __init__(
        self,
        strategy: tf.distribute.Strategy,
        model: keras.Model,
        *,
        dataset: Dataset,
        preprocess: Preprocess,
        largest_batch: int,
    ) -> None:
        self._strategy = strategy
        self._dataset = dataset
        self._preprocess = preprocess
        self._largest_batch = largest_batch
        self._batches: dict[str, tf.distribute.DistributedDataset] = {}
        self._predict = _distributed(strategy, model, dataset.schema.label.task)

    def __call__(self, split: str) -> dict:
        """Metrics over `split`: see EvaluationMetrics.result. Raises InputError if there is no such split."""
        steps = evaluation_steps(self._dataset.records(split), self._even_batch(split))
        metrics = EvaluationMetrics(self._dataset.schema.label)
        with reader.naming_damage(self._dataset, split):
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
                self._dataset,
                self._preprocess,
                split=split,
                global_batch=self._even_batch(split),
            )
            self._batches[split] = self._strategy.distribute_datasets_from_function(
                lambda context: batches(context=context)
            )
        return self._batches[split]

    def _even_batch(self, split: str) -> int:
        """The global batch that takes no more steps than the largest allowed, with the least padding."""
        records, replicas = self._dataset.records(split), self._strategy.num_replicas_in_sync
        each = records / evaluation_steps(records, self._largest_batch)
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
