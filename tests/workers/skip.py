"""A gradient that is not finite in one of two processes."""

import json
import os
import pathlib
import socket
from collections.abc import Iterator, Sequence

from tests.shared import forked

_MAY_TAKE = 300.0


def check(dataset: pathlib.Path, folder: pathlib.Path, *, counts: Sequence[int]) -> Iterator[str]:
    """Whether two processes with float16's optimizer both skip the step, and halve the scale of the loss."""
    del dataset, counts
    servers = [socket.create_server(("localhost", 0)) for _ in range(2)]
    addresses = [f"localhost:{server.getsockname()[1]}" for server in servers]
    for server in servers:
        server.close()
    children = [
        forked.start(lambda number=number: _step(addresses, number), folder / str(number))
        for number in range(2)
    ]
    for number, child in enumerate(children):
        is_over = forked.ends_within(child, _MAY_TAKE)
        if not is_over:
            os.kill(child, 9)
        os.waitpid(child, 0)
        told = (folder / str(number) / "stdout").read_text().splitlines()
        print(f"skip: worker {number}: {told[-1] if told else 'nothing'}", flush=True)
        if not told or told[-1] != "finite: weight 0.0, scale 8.0; last infinite: weight 0.0, scale 4.0":
            yield f"skip: worker {number}: {(folder / str(number) / 'stderr').read_text()[-600:]}"


def _step(addresses: Sequence[str], number: int) -> None:
    """One step with finite gradients, then one with an infinity in the last worker."""
    os.environ["TF_CONFIG"] = json.dumps(
        {"cluster": {"worker": list(addresses)}, "task": {"type": "worker", "index": number}}
    )
    import keras
    import numpy as np
    import tensorflow as tf

    from pipeline.training.engine import agreement
    from pipeline.training.engine import strategy as strategy_lib
    from pipeline.training.engine.inner import train_step
    from pipeline.training.tasks.regression import Regression

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
    agreement.leave_together(strategy)
