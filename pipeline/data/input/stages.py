"""The input pipeline as named stages: run together for training, or one at a time to see what each costs."""

import dataclasses
import itertools
from collections.abc import Callable, Sequence

import tensorflow as tf

from pipeline.data.reading.host_share import rebatched
from pipeline.data.tracing import as_written


@dataclasses.dataclass(frozen=True, kw_only=True)
class Stage:
    """A pure function of tensors: it takes what the stage before gives, and gives what the next one takes."""

    name: str
    apply: Callable[..., tuple]  # of a group's tensors, [n, …] each
    each: bool = False  # of one row's tensors instead, and called for every row


@dataclasses.dataclass(frozen=True, kw_only=True)
class Recipe:
    """How the batches of one replica are made: rows are read and prepared in groups, then batched.

    Rows that are mapped into memory are not read: there `read` gives only the position at which a group
    starts.
    """

    read: Callable[
        [], tf.data.Dataset
    ]  # elements (positions int64 [n], rows [n, …]), or (position int64 [],)
    rows_read: int  # n
    batch: int  # examples of one replica's batch
    stages: tuple[Stage, ...] = ()
    turn: int = 0  # rows that one of several services prepares in its turn; whole batches

    def dataset(self) -> tf.data.Dataset:
        """Batches of one replica, (inputs, labels) [batch, …] each, in a fixed order, as fast as can be."""
        return self.batched(self._prepared(), rows=self.rows_read)

    def turns(self) -> tf.data.Dataset:
        """Groups (inputs, labels) [turn, …], each of which a service gives in its turn."""
        prepared = self._prepared()
        turns = prepared if self.turn == self.rows_read else rebatched(prepared, self.turn)
        return turns.with_options(options())

    def batched(self, prepared: tf.data.Dataset, *, rows: int) -> tf.data.Dataset:
        """Groups [rows, …] of prepared examples → batches [batch, …] of them."""
        if rows % self.batch:
            batches = rebatched(prepared, self.batch).prefetch(tf.data.AUTOTUNE)
        else:
            # Threads pass on whole groups: passing on a small batch costs more than cutting it out.
            batches = rebatched(prepared.prefetch(tf.data.AUTOTUNE), self.batch)
        return batches.with_options(options())

    def _prepared(self) -> tf.data.Dataset:
        return apply(self.read(), self.stages)


def apply(dataset: tf.data.Dataset, stages: Sequence[Stage]) -> tf.data.Dataset:
    """Runs all stages in one parallel map, whose elements keep their order."""
    if not stages:
        return dataset

    @as_written
    def fused(*group: tf.Tensor) -> tuple:
        for each, some in itertools.groupby(stages, key=lambda stage: stage.each):
            group = (_for_each_row if each else _chained)(tuple(some), group)
        return group

    return dataset.map(fused, num_parallel_calls=tf.data.AUTOTUNE, deterministic=True)


def _chained(stages: Sequence[Stage], element: tuple) -> tuple:
    for stage in stages:
        element = stage.apply(*element)
    return element


def _for_each_row(stages: Sequence[Stage], group: tuple) -> tuple:
    """Takes one row after the other in this thread: handing a row to another thread costs 50 µs."""
    row = tf.nest.map_structure(lambda rows: tf.TensorSpec(rows.shape[1:], rows.dtype), group)
    # Traced once here, because `map_fn` has to know the form of its result beforehand.
    function = tf.function(lambda *row: _chained(stages, row), autograph=False).get_concrete_function(*row)
    form = tf.nest.map_structure(tf.TensorSpec.from_tensor, function.structured_outputs)
    return tf.map_fn(lambda row: function(*row), group, fn_output_signature=form, parallel_iterations=1)


def options() -> tf.data.Options:
    """A fixed order, and no sharding by TensorFlow."""
    chosen = tf.data.Options()
    chosen.deterministic = True
    # The reader shards; TensorFlow would drop or repeat examples.
    chosen.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.OFF
    return chosen
