"""Batches of a test for the replicas of a strategy."""

from collections.abc import Callable, Iterator

import tensorflow as tf

from pipeline.data.reading.fetch import dataset_options


def distributed(
    strategy: tf.distribute.Strategy, make: Callable[[tf.distribute.InputContext], tf.data.Dataset]
) -> Iterator:
    """Returns an iterator over what `make` returns for a host, with the options of our own pipelines.

    With TensorFlow's own options, its tuning is on, and an iterator that is dropped waits for the thread of
    the tuning, up to a minute.
    """
    return iter(
        strategy.distribute_datasets_from_function(
            lambda context: make(context).with_options(dataset_options())
        )
    )
