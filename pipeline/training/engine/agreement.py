"""What all processes that train together must decide alike."""

import contextlib
from collections.abc import Callable

import numpy as np
import tensorflow as tf
from tensorflow.python.eager import context

from pipeline.data.errors import InputError
from pipeline.training.engine import strategy as strategy_lib

_MS_TO_LEAVE = 20_000
_SIGNALS = 65  # Linux numbers them 1 to 64


def largest(strategy: tf.distribute.Strategy, asked: Callable[[], int]) -> Callable[[], int]:
    """A function () → the largest number, 0 to 64, that `asked` gives in any of the processes.

    All must call it equally often: it sums over the workers of a cluster.
    """
    if strategy_lib.name_of(strategy) != "multi_worker":
        return asked

    counted = _summed(strategy)

    def agreed() -> int:
        counts = np.bincount([asked()], minlength=_SIGNALS).astype(np.int32)
        return int(np.flatnonzero(counted(tf.constant(counts)).numpy()).max())

    return agreed


def same_step(strategy: tf.distribute.Strategy, step: int) -> int:
    """The step that this process goes on from; all must call it.

    Raises:
      InputError: another one goes on from another step: it has found other checkpoints.
    """
    if strategy_lib.name_of(strategy) != "multi_worker":
        return step
    found = _of_all(strategy)(step)
    if len(set(found.tolist())) > 1:
        listed = ", ".join(f"worker {worker} step {one:,}" for worker, one in enumerate(found))
        raise InputError(
            "--workdir",
            received=f"other checkpoints than on other workers ({listed})",
            expected="a directory that all workers see, so that all go on from the same step",
            action="Put it on a file system that all share, or copy worker 0's directory to the others.",
        )
    return step


def latest_step(strategy: tf.distribute.Strategy) -> Callable[[int], int]:
    """A function of a step → the latest that any of the processes gives; it waits for all of them."""
    if strategy_lib.name_of(strategy) != "multi_worker":
        return lambda step: step
    of_all = _of_all(strategy)
    return lambda step: int(of_all(step).max())


def leave_together(strategy: tf.distribute.Strategy) -> None:
    """Waits until no worker needs another any more; call it where a process does nothing but end.

    One that ends while another still fetches what it had summed looks lost (TensorFlow 2.21, measured).
    """
    if strategy_lib.name_of(strategy) != "multi_worker":
        return
    # No public module has it. What is trained is saved: one that is lost now changes nothing.
    with contextlib.suppress(tf.errors.OpError):
        context.context().wait_at_barrier("penstock/end", _MS_TO_LEAVE)


def _of_all(strategy: tf.distribute.Strategy) -> Callable[[int], np.ndarray]:
    """A function of a number → those of all workers, int64 [workers]."""
    workers = len(strategy.cluster_resolver.cluster_spec().job_tasks("worker"))
    summed = _summed(strategy)

    def of_all(number: int) -> np.ndarray:
        numbers = np.zeros(workers, np.int64)
        numbers[strategy_lib.worker(strategy)] = number
        return summed(tf.constant(numbers)).numpy() * workers // strategy.num_replicas_in_sync

    return of_all


def _summed(strategy: tf.distribute.Strategy) -> Callable[[tf.Tensor], tf.Tensor]:
    """A tensor → the sum of those that all replicas have."""

    @tf.function(autograph=False)
    def summed(values: tf.Tensor) -> tf.Tensor:
        return strategy.reduce("SUM", strategy.run(tf.identity, args=(values,)), axis=None)

    return summed
