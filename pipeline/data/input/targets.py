"""What a step gets of an example besides the model's inputs: its label, and its weight where it has one."""

import dataclasses
from collections.abc import Mapping

import tensorflow as tf

from pipeline.data.schema.kinds import Numeric

# Labels [batch], or those and the weights of the examples, float32 [batch].
TargetsOfBatch = tf.Tensor | tuple[tf.Tensor, tf.Tensor]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Targets:
    """Callable on a batch of raw features and its labels. `weights`: the column that weighs, if one does."""

    weights: Numeric | None = None

    def __call__(self, features: Mapping[str, tf.Tensor], labels: tf.Tensor) -> TargetsOfBatch:
        """Raw features, each [batch, …], and labels [batch] → these labels, with the raw weights."""
        if self.weights is None:
            return labels
        # A record holds a number less its offset. The sum in float64: float32 would round twice.
        stored = tf.cast(features[self.weights.name], tf.float64)
        return labels, tf.cast(stored + self.weights.offset, tf.float32)

    def weights_of(self, targets: TargetsOfBatch) -> tf.Tensor | None:
        """The weights among the targets, float32 [batch]; None where there are none."""
        return None if self.weights is None else targets[1]
