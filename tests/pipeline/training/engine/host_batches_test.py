"""Batches of replicas: shares of each under several, the dataset itself on a single CPU."""

import pytest
import tensorflow as tf

from pipeline.training.engine import strategy as strategy_lib
from pipeline.training.engine.host_batches import distributed


def count(context: tf.distribute.InputContext) -> tf.data.Dataset:
    return tf.data.Dataset.range(6).batch(context.get_per_replica_batch_size(2))


@pytest.mark.parametrize(
    ("name", "expected"), [("one_device", [[[0, 1]], [[2, 3]]]), ("mirrored", [[[0], [1]], [[2], [3]]])]
)
def test_each_replica_gets_its_share(name, expected):
    strategy = strategy_lib.create(name)
    batches = iter(distributed(strategy, count))
    found = [strategy.experimental_local_results(next(batches)) for _ in range(2)]
    assert [[part.numpy().tolist() for part in parts] for parts in found] == expected


def test_on_one_cpu_nothing_is_copied_to_a_device():
    assert isinstance(distributed(strategy_lib.create("one_device"), count), tf.data.Dataset)
