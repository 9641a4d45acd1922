"""What each example of a batch costs under a model."""

from collections.abc import Callable

import keras
import numpy as np
import tensorflow as tf

from pipeline.data.input.targets import TargetsOfBatch
from pipeline.training.tasks.objective import Objective

# (inputs, targets) → (losses float32 [batch], predictions float32 [batch, …])
Judge = Callable[[dict[str, tf.Tensor], TargetsOfBatch], tuple[np.ndarray, np.ndarray]]


def judge_of(model: keras.Model, objective: Objective) -> Judge:
    """A function of a batch to its losses and predictions, one an example.

    Losses are what training minimises, before they are added up: in nats, or in squared units of the label,
    of smoothed labels and weighted where the run has it so. The model runs as in an evaluation: without
    dropout, and with the moving statistics of its batch normalizations, so that an example costs the same
    whatever batch it is in.
    """

    @tf.function(autograph=False)
    def judged(inputs: dict[str, tf.Tensor], targets: TargetsOfBatch) -> tuple[tf.Tensor, tf.Tensor]:
        logits = model(inputs, training=False)
        return objective.losses(targets, logits), objective.predictions(logits)

    def judge(inputs: dict[str, tf.Tensor], targets: TargetsOfBatch) -> tuple[np.ndarray, np.ndarray]:
        losses, predictions = judged(inputs, targets)
        return losses.numpy(), predictions.numpy()

    return judge


def worst_first(losses: np.ndarray) -> np.ndarray:
    """Indices, int64 [n], of the losses, float32 [n]: those that are no numbers, then falling."""
    sorting = np.where(np.isnan(losses), np.inf, losses)
    return np.lexsort((np.arange(len(losses)), -sorting, ~np.isnan(losses)))
