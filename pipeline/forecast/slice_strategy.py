"""One replica of a data-parallel step, traced as a slice's replicas would run it, without the slice.

TPUStrategy needs TPUs. This strategy has one device and says that there are more replicas: the sums over
them become all-reduce operations of as many devices, which a compiler gets to see. The program can be
compiled, and not run.
"""

import itertools
from collections.abc import Callable, Iterator

import tensorflow as tf
from tensorflow.python.distribute import one_device_strategy  # the parts of strategies are not public


class SliceStrategy(tf.distribute.Strategy):
    """A strategy of `replicas` replicas, of which the first is traced."""

    def __init__(self, replicas: int) -> None:
        super().__init__(_Extended(self, replicas))


class _Extended(one_device_strategy.OneDeviceExtended):
    def __init__(self, strategy: SliceStrategy, replicas: int) -> None:
        super().__init__(strategy, "/device:CPU:0")
        self._replicas = replicas
        self._instances = itertools.count(1)

    @property
    def _num_replicas_in_sync(self) -> int:
        return self._replicas

    def _use_merge_call(self) -> bool:
        return False  # like TPUStrategy: a replica adds, and updates, by itself

    def _call_for_each_replica(self, function: Callable, args: tuple, kwargs: dict) -> object:
        with _Context(self._container_strategy(), replicas=self._replicas, instances=self._instances):
            return function(*args, **kwargs)


class _Context(tf.distribute.ReplicaContext):
    def __init__(self, strategy: SliceStrategy, *, replicas: int, instances: Iterator[int]) -> None:
        super().__init__(strategy, replica_id_in_sync_group=0)
        self._replicas, self._instances = replicas, instances

    def all_reduce(self, reduce_op: str, value: object, options: object = None) -> object:
        """The sum over all replicas, with its gradient, which is again such a sum."""
        if reduce_op != "SUM":
            raise NotImplementedError(f"all_reduce of {reduce_op}; the engine asks for SUM alone")
        return tf.nest.map_structure(self._summed, value)

    def _summed(self, value: tf.Tensor) -> tf.Tensor:
        @tf.custom_gradient
        def summed(own: tf.Tensor) -> tuple[tf.Tensor, Callable]:
            return self._collective(own), self._summed

        return summed(tf.convert_to_tensor(value))

    def _collective(self, value: tf.Tensor) -> tf.Tensor:
        return tf.raw_ops.CollectiveReduceV2(
            input=value,
            group_size=self._replicas,
            group_key=1,
            instance_key=next(self._instances),
            ordering_token=[],
            merge_op="Add",
            final_op="Id",
        )
