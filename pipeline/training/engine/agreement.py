"""What all processes that train together must decide alike."""

from collections.abc import Callable

import numpy as np
import tensorflow as tf

from pipeline.training.engine import strategy as strategy_lib

_SIGNALS = 65  # Linux numbers them 1 to 64


def largest(strategy: tf.distribute.Strategy, asked: Callable[[], int]) -> Callable[[], int]:
    """A function () → the largest number, 0 to 64, that `asked` gives in any of the processes.

    All must call it equally often: it sums over the workers of a cluster.
    """
    if strategy_lib.name_of(strategy) != "multi_worker":
        return asked

    @tf.function(autograph=False)
    def counted(counts: tf.Tensor) -> tf.Tensor:
        return strategy.reduce("SUM", strategy.run(tf.identity, args=(counts,)), axis=None)

    def agreed() -> int:
        counts = np.bincount([asked()], minlength=_SIGNALS).astype(np.int32)
        return int(np.flatnonzero(counted(tf.constant(counts)).numpy()).max())

    return agreed
