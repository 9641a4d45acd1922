"""Random numbers that are a pure function of (seed, index, what they are for).

Stateful random operations in a parallel map give other pixels in every run. These numbers do not depend on
the run, host, thread, or numbers drawn before.
"""

import dataclasses
import hashlib

import tensorflow as tf


@dataclasses.dataclass(frozen=True, kw_only=True)
class Draws:
    """The random numbers of one example; `index`, int64 [], is its position in the training stream."""

    seed: int
    index: tf.Tensor

    def key(self, purpose: str) -> tf.Tensor:
        """The seed of a stateless random operation: int64 [2]."""
        digest = hashlib.blake2b(f"{self.seed}/{purpose}".encode(), digest_size=8).digest()
        return tf.stack([tf.constant(int.from_bytes(digest, "little", signed=True), tf.int64), self.index])

    def uniform(self, purpose: str, count: int) -> list[tf.Tensor]:
        """`count` numbers in [0, 1), each float32 []."""
        return tf.unstack(self.table(purpose, count))

    def table(self, purpose: str, *shape: int) -> tf.Tensor:
        """Numbers in [0, 1), float32 [*shape]."""
        # One operation; tf.random.stateless_uniform takes six, too many where examples are mapped singly.
        return tf.raw_ops.StatelessRandomUniform(shape=shape, seed=self.key(purpose))

    def symmetric(self, purpose: str, *limits: float) -> list[tf.Tensor]:
        """A number in [-limit, limit) for each limit, float32 []."""
        numbers = self.uniform(purpose, len(limits))
        return [limit * (2.0 * number - 1.0) for limit, number in zip(limits, numbers, strict=True)]
