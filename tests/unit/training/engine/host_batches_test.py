"""Batches of replicas: shares of each under several, the dataset itself on a single CPU."""

import pytest
import tensorflow as tf

from pipeline.training.engine import strategy as strategy_lib
from pipeline.training.engine.batches import distributed, timed


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


@pytest.mark.parametrize("name", ["one_device", "mirrored"])
def test_batches_are_as_they_were_and_made_one_after_the_other(name):
    strategy = strategy_lib.create(name)
    batches, making = timed(strategy, count)
    made = []
    for batch, plain in zip(batches, distributed(strategy, count), strict=True):
        made += [float(time) for time in making()]
        assert strategy.experimental_local_results(batch)[0].numpy().tolist() == (
            strategy.experimental_local_results(plain)[0].numpy().tolist()
        )
    assert made == sorted(made) and len(made) == 6


def test_where_the_clock_is_forbidden_nothing_is_known():
    assert timed(strategy_lib.create("one_device"), count, is_deterministic=True)[1] is None
