"""The part of each global batch that a host reads: the examples of the replicas that it feeds.

A global batch of B examples is B consecutive positions of the stream. Replica r of R takes the r-th run of
B / R of them, so the batch of a step is the same set of examples on any number of hosts.
"""

import dataclasses
import os
import pathlib

import tensorflow as tf

from pipeline.base.errors import InputError
from pipeline.base.tracing import no_autograph


@dataclasses.dataclass(frozen=True, kw_only=True)
class Share:
    """`shard_count` hosts read for `replicas` replicas; this is the share of the host `shard_index`.

    A host's share can in turn be spread over `service_count` tf.data services. Each prepares every
    `service_count`-th turn, which is one or more whole global batches; or, with `cuts_batches`, a
    run of the host's examples of every global batch.

    Raises:
      InputError: the replicas cannot share the global batch evenly, the hosts cannot share the replicas, or
        there are more services than examples to cut.
    """

    global_batch: int
    replicas: int = 1
    shard_count: int = 1
    shard_index: int = 0
    service_count: int = 1
    service_index: int = 0
    cuts_batches: bool = False

    def __post_init__(self) -> None:
        if self.global_batch < 1 or self.global_batch % self.replicas:
            fitting = max(1, round(self.global_batch / self.replicas)) * self.replicas
            raise InputError(
                "global batch",
                received=self.global_batch,
                expected=f"a positive multiple of the {self.replicas} replicas",
                action=f"Set --config.global_batch={fitting}.",
            )
        if self.replicas % self.shard_count:
            raise InputError(
                "hosts that read",
                received=f"{self.shard_count} for {self.replicas} replicas",
                expected="a number that divides the replicas: every host feeds the same number of them",
                action="Give every host as many devices, or train on another number of hosts.",
            )
        if self.cuts_batches and self.service_count > self.host_examples:
            raise InputError(
                "--data_service",
                received=f"{self.service_count} services",
                expected=f"{self.host_examples} at most: each reads examples of every step",
                action="Name fewer, or set a larger --config.global_batch.",
            )

    @property
    def batch(self) -> int:
        """Examples of one replica's batch."""
        return self.global_batch // self.replicas

    @property
    def host_examples(self) -> int:
        """Examples of a global batch that this host's replicas take."""
        return self.batch * (self.replicas // self.shard_count)

    @property
    def run(self) -> tuple[int, int]:
        """The examples of a global batch that are read here: from the first to after the last."""
        first, size = self.shard_index * self.host_examples, self.host_examples
        if not self.cuts_batches:
            return first, first + size
        cuts = (size * (self.service_index + more) // self.service_count for more in (0, 1))
        return tuple(first + cut for cut in cuts)

    @property
    def examples(self) -> int:
        """Examples of a global batch that are read here."""
        first, end = self.run
        return end - first

    @property
    def is_all(self) -> bool:
        return self.shard_count == self.service_count == 1

    def positions(self, start: int | tf.Tensor, *, batches: int) -> tf.data.Dataset:
        """Endless dataset; an element is this host's positions in the next `batches` global batches, int64
        [batches * examples].
        """
        here = no_autograph(lambda first: self.positions_from(first, batches=batches))
        return self.turn_starts(start, batches=batches).map(here)

    def positions_from(self, first: tf.Tensor, *, batches: int) -> tf.Tensor:
        """This host's positions in `batches` global batches from `first` on, int64 [batches * examples]."""
        starts = first + self.global_batch * tf.range(batches, dtype=tf.int64)
        return tf.reshape(starts[:, None] + tf.range(*self.run, dtype=tf.int64), [-1])

    def turn_starts(self, start: int | tf.Tensor, *, batches: int) -> tf.data.Dataset:
        """Endless dataset of the first position, (int64 [],), of every turn of `batches` global batches."""
        starts = tf.data.Dataset.range(start, tf.int64.max, batches * self.global_batch)
        return tf.data.Dataset.zip((self.turns_here(starts),))

    def turns_here(self, turns: tf.data.Dataset) -> tf.data.Dataset:
        """The turns that this host or service reads; each element is one turn."""
        return turns if self.cuts_batches else turns.shard(self.service_count, self.service_index)

    def of_groups(self, groups: tf.data.Dataset, *, batches: int = 1) -> tf.data.Dataset:
        """Picks this host's rows from endless groups of any size: (positions int64 [n], rows [n, …]).

        Args:
          batches: an element of the result comes from so many global batches, unless this host reads all.
        """
        if self.is_all:
            return groups
        turns = self.turns_here(rebatched(groups, batches * self.global_batch))
        return turns.map(no_autograph(lambda positions, rows: (self.of(positions), self.of(rows))))

    def of(self, rows: tf.Tensor) -> tf.Tensor:
        """Whole global batches, [n * global_batch, …] → the rows that are read here, [n * examples, …]."""
        return cut_runs(rows, self.global_batch, *self.run)


def cut_runs(rows: tf.Tensor, size: int, first: int, end: int) -> tf.Tensor:
    """Cuts each run of `size` rows, [n * size, …], to the rows [first, end)."""
    if (first, end) == (0, size):
        return rows
    runs = tf.reshape(rows, [-1, size, *rows.shape[1:]])
    return tf.reshape(runs[:, first:end], [-1, *rows.shape[1:]])


def rebatched(groups: tf.data.Dataset, rows: int) -> tf.data.Dataset:
    """Groups [n, …] of any n → groups [rows, …], cut out of larger ones without copying a row."""
    return groups.rebatch(rows, drop_remainder=True)


def share_of_context(context: tf.distribute.InputContext, *, global_batch: int) -> Share:
    """The share of a host, when a strategy asks it for its input."""
    return Share(
        global_batch=global_batch,
        replicas=context.num_replicas_in_sync,
        shard_count=context.num_input_pipelines,
        shard_index=context.input_pipeline_id,
    )


# --- The cores that this process may use: TensorFlow sees those of the host, not the container's.

CPU_QUOTA = pathlib.Path("/sys/fs/cgroup/cpu.max")


def host_cores() -> float:
    """The number of cores to which this process is bound, within its container's quota."""
    # macOS does not bind processes.
    bound = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    try:
        quota, period = CPU_QUOTA.read_text().split()
    except (OSError, ValueError):
        return float(bound)
    return float(bound) if quota == "max" else min(float(bound), int(quota) / int(period))
