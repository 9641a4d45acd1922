"""What `fit` does not do under a strategy (Keras 3.15), our step does, with NumPy's numbers.

Where `fit` fails in silence, tests/soak/fault_injection.py names the tests: equal ids, clipping, infinities,
statistics and masks of replicas. XLA over replicas: engine/strategy_test.py.
"""

import keras
import numpy as np
import pytest
import tensorflow as tf

from pipeline.training.engine import strategy as strategy_lib
from pipeline.training.engine.batches import distributed
from pipeline.training.engine.step import inner_loop, train_step
from pipeline.training.tasks.classification import Regression

BATCH, STEPS, RATE = 8, 4, 0.1
X = np.random.default_rng(0).normal(size=(BATCH * STEPS, 3)).astype(np.float32)
Y = X @ np.float32([1, 2, 3])


def linear(strategy: tf.distribute.Strategy, **optimizer: int) -> keras.Model:
    with strategy.scope():
        inputs = keras.Input((3,))
        made = keras.Model(inputs, keras.layers.Dense(1, kernel_initializer="zeros", use_bias=False)(inputs))
        made.optimizer = keras.optimizers.SGD(RATE, **optimizer)
        made.optimizer.build(made.trainable_variables)
    return made


def by_numpy() -> np.ndarray:
    """The weights after a step a batch of gradient descent on the mean square."""
    weights = np.zeros(3)
    for first in range(0, len(X), BATCH):
        x, y = X[first : first + BATCH].astype(np.float64), Y[first : first + BATCH]
        weights -= RATE * 2 * x.T @ (x @ weights - y) / BATCH
    return weights


def by_ours(strategy: tf.distribute.Strategy, *, micro_batches: int = 1) -> np.ndarray:
    model = linear(strategy)

    def batches(context: tf.distribute.InputContext) -> tf.data.Dataset:
        each = context.get_per_replica_batch_size(BATCH)
        return tf.data.Dataset.from_tensor_slices((X, Y)).batch(each, drop_remainder=True)

    step = train_step(
        model, model.optimizer, task=Regression(), global_batch=BATCH, micro_batches=micro_batches
    )
    inner_loop(strategy, step, iter(distributed(strategy, batches)))(STEPS)
    return np.asarray(model.weights[0])[:, 0]


def fit(model: keras.Model) -> None:
    model.compile(optimizer=model.optimizer, loss="mse")
    model.fit(tf.data.Dataset.from_tensor_slices((X, Y)).batch(BATCH), verbose=0)


def test_several_steps_a_loop_over_replicas():
    """`fit` says "You must feed a value for placeholder" with the strategy's own way to sum over CPUs."""
    strategy = strategy_lib.create("mirrored")
    np.testing.assert_allclose(by_ours(strategy), by_numpy(), rtol=1e-5)


def test_accumulated_gradients_over_replicas():
    strategy = strategy_lib.create("mirrored")
    with pytest.raises(Exception, match="merge_call"):
        fit(linear(strategy, gradient_accumulation_steps=2))
    np.testing.assert_allclose(by_ours(strategy, micro_batches=2), by_numpy(), rtol=1e-5)
