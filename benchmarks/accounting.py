"""What it costs to account for the wait for input in every step of training.

  python -m benchmarks.accounting

Runs the same steps through the training loop and through the same loop without its clocks, in turns. The
median of the rounds' differences is set against steps of several lengths; the project's limit is 1%.
"""

import statistics
import time
from collections.abc import Callable, Iterator

from pipeline.base import tensorflow_start  # noqa: F401 - before TensorFlow

import tensorflow as tf  # isort: skip

from pipeline.training.engine.step import inner_loop

STEPS, ROUNDS = 2_000, 15
STEP_MS = (1.0, 5.0, 50.0)  # a small model on a CPU, on an accelerator, a large model

WEIGHTS = tf.Variable(tf.random.stateless_normal([64, 64], seed=(0, 0)))


def step(inputs: dict[str, tf.Tensor], labels: tf.Tensor) -> tf.Tensor:
    """A step of some 10 µs: the shorter, the better the clocks are seen."""
    return tf.stack([tf.reduce_sum(tf.matmul(inputs["x"], WEIGHTS)), tf.reduce_sum(labels), 0.0])


def batches(strategy: tf.distribute.Strategy) -> Iterator:
    batch = ({"x": tf.ones([16, 64])}, tf.ones([16]))
    return iter(
        strategy.distribute_datasets_from_function(lambda _: tf.data.Dataset.from_tensors(batch).repeat())
    )


def without_clocks(strategy: tf.distribute.Strategy, iterator: Iterator) -> Callable[[int], None]:
    @tf.function
    def loop(steps: tf.Tensor) -> tf.Tensor:
        sums = tf.zeros([3])
        for _ in tf.range(steps):
            with tf.control_dependencies([sums]):
                inputs, labels = next(iterator)
            sums += strategy.reduce("SUM", strategy.run(step, args=(inputs, labels)), axis=None)
        return sums

    return lambda steps: loop(tf.constant(steps)).numpy()


def microseconds(run: Callable[[int], object]) -> tuple[float, float]:
    """(wall, CPU) of a step."""
    wall, cpu = time.perf_counter(), time.process_time()
    run(STEPS)
    return 1e6 * (time.perf_counter() - wall) / STEPS, 1e6 * (time.process_time() - cpu) / STEPS


def main() -> None:
    strategy = tf.distribute.OneDeviceStrategy("/CPU:0")
    plain, accounted = (
        without_clocks(strategy, batches(strategy)),
        inner_loop(strategy, step, batches(strategy)),
    )
    microseconds(plain), microseconds(accounted)  # traces
    rounds = [(microseconds(plain), microseconds(accounted)) for _ in range(ROUNDS)]
    for i, name in enumerate(("wall", "CPU")):
        base = statistics.median(before[i] for before, _ in rounds)
        more = statistics.median(after[i] - before[i] for before, after in rounds)
        shares = ", ".join(f"{more / 1e3 / ms:.2%} of {ms:g} ms" for ms in STEP_MS)
        print(f"{name}: a step without clocks {base:.1f} µs; with them {more:+.1f} µs: {shares}")


if __name__ == "__main__":
    main()
