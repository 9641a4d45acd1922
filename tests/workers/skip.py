"""A gradient that is not finite in one of two processes."""

import pathlib
from collections.abc import Iterator, Sequence

from tests.workers import pair

_TOLD = "finite: weight 0.0, scale 8.0; last infinite: weight 0.0, scale 4.0"


def check(dataset: pathlib.Path, folder: pathlib.Path, *, counts: Sequence[int]) -> Iterator[str]:
    """Whether two processes with float16's optimizer both skip the step, and halve the scale of the loss."""
    del dataset, counts
    return pair.faults("skip", _step, folder, expected=[_TOLD] * 2)


def _step(number: int) -> None:
    """One step with finite gradients, then one with an infinity in the last worker."""
    import keras
    import numpy as np
    import tensorflow as tf

    from pipeline.training.engine import strategy as strategy_lib
    from pipeline.training.engine.step import train_step
    from pipeline.training.tasks.classification import Regression

    strategy = strategy_lib.create("multi_worker")
    with strategy.scope():
        x = keras.Input((1,), name="x")
        dense = keras.layers.Dense(1, use_bias=False, kernel_initializer="ones")
        model = keras.Model([x], dense(x))
        optimizer = keras.optimizers.LossScaleOptimizer(keras.optimizers.SGD(0.5), initial_scale=8.0)
        optimizer.build(model.trainable_variables)
    step = train_step(model, optimizer, task=Regression(), global_batch=8)
    run = tf.function(lambda inputs, labels: strategy.run(step, args=(inputs, labels)))

    def told(last: float) -> str:
        inputs = np.ones((4, 1), "float32")
        inputs[-1] = last if number else 1.0
        run({"x": tf.constant(inputs)}, tf.zeros([4]))
        weight, scale = np.asarray(model.weights[0]).item(), np.asarray(optimizer.dynamic_scale).item()
        return f"weight {weight}, scale {scale}"

    # The first gradient is 2 * weight * mean(x²) = 2, so the weight becomes 0.
    print(f"finite: {told(1.0)}; last infinite: {told(np.inf)}", flush=True)
    strategy_lib.leave_together(strategy)
