"""The input pipeline as named stages: run together for training, or one at a time to see what each costs."""

import dataclasses
from collections.abc import Callable, Sequence

import tensorflow as tf

from pipeline.data.graph import as_written


@dataclasses.dataclass(frozen=True, kw_only=True)
class Stage:
    """A pure function of tensors: takes the elements of the stage before, gives the next one's."""

    name: str
    apply: Callable[..., tuple]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Recipe:
    """How the batches of one replica come about.

    `read` gives single rows, which `per_example` stages prepare one by one and `batch` gathers; or, where
    `batches_read` is positive, so many batches of rows at once. Then `per_batch` stages follow. Rows that are
    mapped into memory are not read: there `read` only tells the place where a chunk starts.
    """

    read: Callable[[], tf.data.Dataset]  # elements (places int64 [] or [n], rows [] or [n, …]), or (a place,)
    batch: int  # examples of one replica's batch
    per_example: tuple[Stage, ...] = ()
    batches_read: int = 0  # 0: rows are read one by one
    per_batch: tuple[Stage, ...] = ()

    @property
    def reads_batches(self) -> bool:
        return self.batches_read > 0

    def dataset(self) -> tf.data.Dataset:
        """Batches of one replica, in a fixed order, as fast as this host gives them."""
        return self.finish(self.prepared())

    def prepared(self) -> tf.data.Dataset:
        """Single batches, or as many as are read at once together."""
        rows = self.read()
        if not self.reads_batches:
            rows = apply(rows, self.per_example).batch(self.batch, drop_remainder=True)
        return apply(rows, self.per_batch)

    def finish(self, prepared: tf.data.Dataset) -> tf.data.Dataset:
        # Ahead of parting: to pass on a small batch between threads costs more than to cut it out.
        return self.split(prepared.prefetch(tf.data.AUTOTUNE)).with_options(options())

    def split(self, chunks: tf.data.Dataset) -> tf.data.Dataset:
        """Chunks of several batches → single ones."""
        if self.batches_read <= 1:
            return chunks

        def fold(tensor: tf.Tensor) -> tf.Tensor:
            return tf.reshape(tensor, [self.batches_read, self.batch, *tensor.shape[1:]])

        return chunks.map(as_written(lambda *chunk: tf.nest.map_structure(fold, chunk))).unbatch()


def apply(dataset: tf.data.Dataset, stages: Sequence[Stage]) -> tf.data.Dataset:
    """All stages in one parallel map, whose elements keep their order."""
    if not stages:
        return dataset

    @as_written
    def fused(*element: tf.Tensor) -> tuple:
        for stage in stages:
            element = stage.apply(*element)
        return element

    return dataset.map(fused, num_parallel_calls=tf.data.AUTOTUNE, deterministic=True)


def options() -> tf.data.Options:
    chosen = tf.data.Options()
    chosen.deterministic = True
    # Sharding is the reader's; TensorFlow's own would drop or repeat examples.
    chosen.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.OFF
    return chosen
