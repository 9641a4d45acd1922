"""What a step gets of an example besides the model's inputs: its label, its weight, what it is mixed with."""

import dataclasses
from collections.abc import Mapping
from typing import NamedTuple

import tensorflow as tf

from pipeline.data.schema.kinds import Numeric

# Labels [batch], or those and the weights of the examples, float32 [batch].
Plain = tf.Tensor | tuple[tf.Tensor, tf.Tensor]


class Mixed(NamedTuple):
    """Of examples each of which is mixed with another. `shares`: of the example itself, float32 [batch]."""

    own: Plain
    other: Plain  # of the one that it is mixed with
    shares: tf.Tensor


TargetsOfBatch = Plain | Mixed


@dataclasses.dataclass(frozen=True, kw_only=True)
class Targets:
    """Callable on a batch of raw features and its labels. `weights`: the column that weighs, if one does."""

    weights: Numeric | None = None

    def __call__(
        self, features: Mapping[str, tf.Tensor], labels: tf.Tensor, shares: tf.Tensor | None = None
    ) -> TargetsOfBatch:
        """Raw features, each [batch, …], and labels [batch] → these labels, with the raw weights.

        Args:
          shares: float32 [batch], how much each is itself where each two neighbours are mixed.
        """
        plain = labels if self.weights is None else (labels, self._raw_weights(features))
        if shares is None:
            return plain
        return Mixed(own=plain, other=tf.nest.map_structure(_swapped, plain), shares=shares)

    def labels_of(self, targets: TargetsOfBatch) -> tf.Tensor:
        """The examples' own labels, [batch]."""
        own = own_of(targets)
        return own if self.weights is None else own[0]

    def weights_of(self, targets: TargetsOfBatch) -> tf.Tensor | None:
        """The examples' own weights, float32 [batch]; None where there are none."""
        if self.weights is None:
            return None
        return own_of(targets)[1]

    def _raw_weights(self, features: Mapping[str, tf.Tensor]) -> tf.Tensor:
        # A record holds a number less its offset. The sum in float64: float32 would round twice.
        stored = tf.cast(features[self.weights.name], tf.float64)
        return tf.cast(stored + self.weights.offset, tf.float32)


def own_of(targets: TargetsOfBatch) -> Plain:
    """The targets of the examples themselves, whatever they are mixed with."""
    return targets.own if isinstance(targets, Mixed) else targets


def partner_of(index: int) -> int:
    """Where in its batch the example is that the one at `index` is mixed with: each two neighbours are."""
    return index ^ 1


def _swapped(rows: tf.Tensor) -> tf.Tensor:
    """Each two neighbours of [batch, …] in the place of each other."""
    pairs = tf.reshape(rows, [-1, 2, *rows.shape[1:]])
    return tf.reshape(pairs[:, ::-1], [-1, *rows.shape[1:]])
