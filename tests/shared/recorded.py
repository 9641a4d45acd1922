"""Records what a model was truly trained on: each replica's inputs and targets, as its step receives them."""

import contextlib
from collections.abc import Callable, Iterator

import numpy as np
import pytest
import tensorflow as tf

from pipeline.data.input.training import TargetsOfBatch
from pipeline.training.run import parts

Targets = np.ndarray | tuple[np.ndarray, ...]  # labels, or those and weights
Batch = tuple[dict[str, np.ndarray], Targets]
Ledger = dict[int, dict[int, Batch]]  # by step, from 0, and by replica
Keep = Callable[[int, int, Batch], None]  # of a step, a replica, and what it received


@contextlib.contextmanager
def recorded(ledger: Ledger) -> Iterator[None]:
    """Runs that are trained within this block add to the ledger; a step that is trained again is replaced."""

    def keep(step: int, replica: int, batch: Batch) -> None:
        ledger.setdefault(step, {})[replica] = batch

    with pytest.MonkeyPatch.context() as changed:
        changed.setattr(parts, "train_step", recording(parts.train_step, keep))
        yield


def recording(train_step: Callable, keep: Keep) -> Callable:
    """What takes the place of `parts.train_step`: its steps call `keep` before they compute."""

    def build(model: object, optimizer: object, **rest: object) -> Callable:
        return _recording(train_step(model, optimizer, **rest), optimizer, keep)

    return build


def _recording(step: Callable, optimizer: object, keep: Keep) -> Callable:
    def with_record(inputs: dict[str, tf.Tensor], targets: TargetsOfBatch) -> tf.Tensor:
        names = sorted(inputs)
        replica = tf.distribute.get_replica_context().replica_id_in_sync_group

        def kept(iteration: np.ndarray, replica: np.ndarray, *tensors: np.ndarray) -> np.int32:
            arrays = [np.array(tensor) for tensor in tensors]
            rest = tf.nest.pack_sequence_as(targets, arrays[len(names) :])
            keep(int(iteration), int(replica), (dict(zip(names, arrays, strict=False)), rest))
            return np.int32(0)

        tensors = [inputs[name] for name in names] + tf.nest.flatten(targets)
        iteration = tf.convert_to_tensor(optimizer.iterations)
        done = tf.numpy_function(kept, [iteration, replica, *tensors], tf.int32)
        with tf.control_dependencies([done]):
            return step(inputs, tf.nest.map_structure(tf.identity, targets))

    return with_record


def global_batch(replicas: dict[int, Batch]) -> Batch:
    """The batches of all replicas, one after the other, in their order."""
    parts_ = [replicas[number] for number in sorted(replicas)]
    inputs = {name: np.concatenate([one[0][name] for one in parts_]) for name in parts_[0][0]}
    targets = tf.nest.map_structure(lambda *each: np.concatenate(each), *(one[1] for one in parts_))
    return inputs, targets
