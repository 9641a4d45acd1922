"""Records what a model was truly trained on: each replica's inputs and labels, as its step receives them."""

import contextlib
from collections.abc import Callable, Iterator

import numpy as np
import pytest
import tensorflow as tf

from pipeline.training import parts

Batch = tuple[dict[str, np.ndarray], np.ndarray]
Ledger = dict[int, dict[int, Batch]]  # by step, from 0, and by replica


@contextlib.contextmanager
def recorded(ledger: Ledger) -> Iterator[None]:
    """Runs that are trained within this block add to the ledger; a step that is trained again is replaced."""
    with pytest.MonkeyPatch.context() as changed:
        original = parts.train_step
        changed.setattr(
            parts,
            "train_step",
            lambda model, optimizer, **rest: _recording(
                original(model, optimizer, **rest), optimizer, ledger
            ),
        )
        yield


def _recording(step: Callable, optimizer: object, ledger: Ledger) -> Callable:
    def with_record(inputs: dict[str, tf.Tensor], labels: tf.Tensor) -> tf.Tensor:
        names = sorted(inputs)
        replica = tf.distribute.get_replica_context().replica_id_in_sync_group

        def keep(iteration: np.ndarray, replica: np.ndarray, *tensors: np.ndarray) -> np.int32:
            *arrays, kept_labels = (np.array(tensor) for tensor in tensors)
            batch = dict(zip(names, arrays, strict=True)), kept_labels
            ledger.setdefault(int(iteration), {})[int(replica)] = batch
            return np.int32(0)

        tensors = [inputs[name] for name in names] + [labels]
        iteration = tf.convert_to_tensor(optimizer.iterations)
        done = tf.numpy_function(keep, [iteration, replica, *tensors], tf.int32)
        with tf.control_dependencies([done]):
            return step(inputs, tf.identity(labels))

    return with_record


def global_batch(replicas: dict[int, Batch]) -> Batch:
    """The batches of all replicas, one after the other, in their order."""
    parts_ = [replicas[number] for number in sorted(replicas)]
    inputs = {name: np.concatenate([one[0][name] for one in parts_]) for name in parts_[0][0]}
    return inputs, np.concatenate([one[1] for one in parts_])
