"""What several workers promise, on real processes: the same weights, one decision, one step to go on from.

python -m tests.soak.workers --cases=weights
"""

import os
import pathlib
import signal
from collections.abc import Callable, Iterator, Mapping

import numpy as np

from pipeline.base import tensorflow_start  # noqa: F401 - before TensorFlow

# isort: split
from tests.shared import forked
from tests.shared.preloaded import preload
from tests.shared.small_run import write_small_dataset
from tests.soak import harness, hooks
from tests.soak.harness import Row, Soak
from tests.soak.kill_training import TOLERANCE, clusters, read_steps

_COUNTS, _STEPS = (1, 2, 3, 4), 24
_MAY_TAKE = 600.0
_SKIPPED = "finite: weight 0.0, scale 8.0; last infinite: weight 0.0, scale 4.0"
_REFUSED = (
    "--workdir: received other checkpoints than on other workers (worker 0 step 7, worker 1 step 9); "
    "expected a directory that all workers see, so that all go on from the same step. "
    "Put it on a file system that all share, or copy worker 0's directory to the others."
)


def same_weights(soak: Soak) -> Iterator[str]:
    """What differs between runs by some workers, and between the workers of each."""
    dataset = soak.folder / "dataset"
    forked.call(lambda: write_small_dataset(dataset), soak.folder / "made", timeout=_MAY_TAKE)
    first = None
    for count in _COUNTS:
        folder = soak.folder / f"by-{count}"

        def train(number: int, folder: pathlib.Path = folder) -> None:
            hooks.record_steps(folder / str(number) / "steps")
            hooks.record_weights(folder / str(number) / "weights.npz")
            arguments = ("--config=tests/soak/training_config.py:elastic", f"--dataset={dataset}")
            exact = ("--strategy=auto", "--precision=float32", "--deterministic")
            forked.run_module(["pipeline.train", *arguments, f"--workdir={folder / 'run'}", *exact])

        codes = _together(count, train, folder)
        steps = read_steps(folder)
        if any(codes) or len(steps) != _STEPS:
            yield f"{count} workers: exit codes {codes}, {len(steps)} steps"
            return
        weights = [_load(path) for path in sorted(folder.glob("*/weights.npz"))]
        if len(weights) != count or not all(_equal(weights[0], each) for each in weights):
            yield f"{count} workers: their weights differ, or are not all there ({len(weights)})"
        first = first or (steps, weights[0])
        off = _difference(first[1], weights[0])
        print(f"weights: {count} workers, identical; {off:.2g} from the first run", flush=True)
        if not off <= TOLERANCE:
            yield f"{count} workers: weights differ by {off:.2g}, of which {TOLERANCE:g} are allowed"
        if steps != first[0]:
            yield f"{count} workers: other examples in a step"


def _load(path: pathlib.Path) -> Mapping[str, np.ndarray]:
    with np.load(path) as file:
        return dict(file)


def _equal(one: Mapping[str, np.ndarray], other: Mapping[str, np.ndarray]) -> bool:
    return one.keys() == other.keys() and all(one[name].tobytes() == other[name].tobytes() for name in one)


def _difference(one: Mapping[str, np.ndarray], other: Mapping[str, np.ndarray]) -> float:
    """The largest, of all variables, relative to the largest entry of each."""
    return max(
        float(np.max(np.abs(one[name].astype("f8") - other[name])) / max(1e-12, np.max(np.abs(one[name]))))
        for name in one
        if one[name].size and one[name].dtype.kind == "f"
    )


def _together(count: int, body: Callable[[int], None], folder: pathlib.Path) -> list[int]:
    """Exit codes of so many processes in one cluster, each of which gets its number."""

    def work(number: int, cluster: str) -> None:
        if cluster:
            os.environ["TF_CONFIG"] = cluster
        body(number)

    children = [
        forked.start(lambda number=number, cluster=cluster: work(number, cluster), folder / str(number))
        for number, cluster in enumerate(clusters(count))
    ]
    codes = []
    for child in children:
        if not forked.ends_within(child, _MAY_TAKE):
            os.killpg(child, signal.SIGKILL)
        codes.append(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    return codes


def _differing(soak: Soak, body: Callable[[int], None], expected: str) -> Iterator[str]:
    """What two processes print last, where it is something else."""
    _together(2, body, soak.folder)
    for number in range(2):
        streams = [(soak.folder / str(number) / name).read_text() for name in ("stdout", "stderr")]
        if ["", *streams[0].splitlines()][-1] != expected:
            yield f"worker {number}: {streams[0][-300:]} {streams[1][-600:]}"


def _step(number: int) -> None:
    """One step with finite gradients, then one with an infinity in the last worker."""
    import keras
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

    def step_with(last: float) -> str:
        inputs = np.ones((4, 1), "float32")
        inputs[-1] = last if number else 1.0
        run({"x": tf.constant(inputs)}, tf.zeros([4]))
        weight, scale = np.asarray(model.weights[0]).item(), np.asarray(optimizer.dynamic_scale).item()
        return f"weight {weight}, scale {scale}"

    # The first gradient is 2 * weight * mean(x²) = 2, so the weight becomes 0.
    print(f"finite: {step_with(1.0)}; last infinite: {step_with(np.inf)}", flush=True)
    strategy_lib.leave_together(strategy)


def _compare(number: int) -> None:
    from pipeline.base.errors import InputError
    from pipeline.training.engine import strategy as strategy_lib

    strategy = strategy_lib.create("multi_worker")
    same, refused = strategy_lib.same_step(strategy, 7), ""
    try:
        strategy_lib.same_step(strategy, 7 + 2 * number)
    except InputError as error:
        refused = str(error)
    print(f"{same}; {refused}", flush=True)
    strategy_lib.leave_together(strategy)


ROWS = (
    Row(
        name="weights",
        sentence="Trains by one to four workers: the same bits in each, the same weights within 1e-4.",
        faults=same_weights,
    ),
    Row(
        name="skip",
        sentence="A gradient that is not finite in one of two workers skips the step in both.",
        faults=lambda soak: _differing(soak, _step, _SKIPPED),
    ),
    Row(
        name="agree",
        sentence="Two workers that would go on from other steps are refused, in a line that names them.",
        faults=lambda soak: _differing(soak, _compare, f"7; {_REFUSED}"),
    ),
)


if __name__ == "__main__":
    harness.run(lambda: ROWS, preload=preload)
