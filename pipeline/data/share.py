"""What of each global batch one input pipeline reads: the examples of the replicas that it feeds.

A global batch of B examples is B consecutive places of the stream; replica r of R takes the r-th run of B / R
of them. So the batch of a step is the same set of examples on any number of hosts.
"""

import dataclasses

import tensorflow as tf

from pipeline.data.errors import InputError
from pipeline.data.graph import as_written


@dataclasses.dataclass(frozen=True, kw_only=True)
class Share:
    """`pipelines` input pipelines (hosts) feed `replicas` replicas; this is the one numbered `pipeline`."""

    global_batch: int
    replicas: int = 1
    pipelines: int = 1
    pipeline: int = 0
    services: int = 1  # tf.data services that this pipeline's share is spread over, in turns
    service: int = 0

    def __post_init__(self) -> None:
        if self.global_batch < 1 or self.global_batch % self.replicas:
            fitting = max(1, round(self.global_batch / self.replicas)) * self.replicas
            raise InputError(
                "global batch",
                received=self.global_batch,
                expected=f"a positive multiple of the {self.replicas} replicas",
                action=f"Set --config.global_batch={fitting}.",
            )

    @property
    def batch(self) -> int:
        """Examples of one replica's batch."""
        return self.global_batch // self.replicas

    @property
    def replicas_here(self) -> int:
        return self.replicas // self.pipelines

    @property
    def examples(self) -> int:
        """Of a global batch, how many this pipeline reads."""
        return self.batch * self.replicas_here

    @property
    def is_all(self) -> bool:
        return self.pipelines == self.services == 1

    def positions(self, start: int, *, batches: int) -> tf.data.Dataset:
        """Endless: the places of so many global batches that are read here, int64 [batches * examples]."""
        places = as_written(lambda first: self.places(first, batches=batches))
        return self.firsts(start, batches=batches).map(places)

    def places(self, first: tf.Tensor, *, batches: int) -> tf.Tensor:
        """Of so many global batches from place `first` on, those read here: int64 [batches * examples]."""
        return self.of(first + tf.range(batches * self.global_batch, dtype=tf.int64))

    def firsts(self, start: int, *, batches: int) -> tf.data.Dataset:
        """Endless: the first place, (int64 [],), of every so many global batches."""
        steps = tf.data.Dataset.range(start, tf.int64.max, batches * self.global_batch)
        return tf.data.Dataset.zip((steps.shard(self.services, self.service),))

    def of_groups(self, groups: tf.data.Dataset, *, batches: int = 1) -> tf.data.Dataset:
        """Of endless groups (places, rows) of any size, what is read here, so many global batches at once."""
        if self.is_all:
            return groups
        turns = rebatched(groups, batches * self.global_batch)
        return turns.shard(self.services, self.service).map(
            as_written(lambda places, rows: (self.of(places), self.of(rows)))
        )

    def of(self, rows: tf.Tensor) -> tf.Tensor:
        """Of whole global batches, [n * global_batch, …], the rows [n * examples, …] that are read here."""
        if self.pipelines == 1:
            return rows
        batches = tf.reshape(rows, [-1, self.global_batch, *rows.shape[1:]])
        first = self.pipeline * self.examples
        return tf.reshape(batches[:, first : first + self.examples], [-1, *rows.shape[1:]])


def rebatched(groups: tf.data.Dataset, rows: int) -> tf.data.Dataset:
    """Groups of so many rows from groups of any; cut out of larger ones without copying a row."""
    return groups.rebatch(rows, drop_remainder=True)


def of_context(
    context: tf.distribute.InputContext | None, *, global_batch: int, services: int = 1, service: int = 0
) -> Share:
    """Raises InputError if the replicas cannot share the batch evenly."""
    context = context or tf.distribute.InputContext()
    return Share(
        global_batch=global_batch,
        replicas=context.num_replicas_in_sync,
        pipelines=context.num_input_pipelines,
        pipeline=context.input_pipeline_id,
        services=services,
        service=service,
    )
