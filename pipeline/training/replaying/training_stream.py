"""What a run trains on, from any step: the batches themselves, and which records they are made of.

A step is counted from 0, by the steps that are done before it: the batch of step N makes N steps N + 1.
"""

import dataclasses
import functools
import itertools
from collections.abc import Callable, Iterator

import tensorflow as tf
from ml_collections import ConfigDict

from pipeline.data.input.batches import training_batches
from pipeline.data.input.targets import Targets, TargetsOfBatch
from pipeline.data.integrity.damage import naming_damage
from pipeline.data.preprocessing.preprocess import Preprocess
from pipeline.data.reading import stream
from pipeline.data.reading.host_share import Share, rebatched
from pipeline.data.reading.mixture import TrainingData, main_of, parts_of
from pipeline.data.reading.plan import ReadPlan
from pipeline.data.schema.schema import Schema
from pipeline.training.experiment import training_data
from pipeline.training.replaying.record import Record, records_of

Batch = tuple[dict[str, tf.Tensor], TargetsOfBatch]  # of a global batch


@dataclasses.dataclass(frozen=True, kw_only=True)
class TrainingStream:
    """The stream of a run, in any process: it depends on config and data alone.

    Nothing that comes before a step is read. The graph that reads one step is traced once, for all of them.
    """

    config: ConfigDict
    data: TrainingData  # without the records that the run leaves out
    preprocess: Preprocess

    @property
    def schema(self) -> Schema:
        return main_of(self.data).dataset.schema

    @property
    def targets(self) -> Targets:
        """What makes the second part of a batch."""
        return training_data.targets(self.config, self.schema)

    def batch(self, step: int) -> Batch:
        """The global batch as the model gets it: those of all replicas, in their order.

        Raises:
          InputError: a record is damaged.
        """
        with naming_damage(*parts_of(self.data)):
            return self._batch(tf.constant(step, tf.int64))

    def records(self, step: int) -> tuple[Record, ...]:
        """The records of the same batch, in the same order."""
        positions, numbers = self._numbers(tf.constant(step, tf.int64))
        return records_of(self.data, positions.numpy(), numbers.numpy())

    def batches(self, first: int, *, steps: int) -> Iterator[Batch]:
        """The batches of consecutive steps, which cost less together; raises what `batch` does."""
        with naming_damage(*parts_of(self.data)):
            yield from itertools.islice(self._batches(first), steps)

    @functools.cached_property
    def _batch(self) -> Callable[[tf.Tensor], Batch]:
        return _of_step(lambda step: self._batches(step, most_at_once=1))

    @functools.cached_property
    def _numbers(self) -> Callable[[tf.Tensor], tuple[tf.Tensor, tf.Tensor]]:
        size = self.config.global_batch
        return _of_step(lambda step: rebatched(stream.read_numbers(self._plan(step)), size))

    def _batches(self, first: int | tf.Tensor, *, most_at_once: int | None = None) -> tf.data.Dataset:
        return training_batches(
            self._plan(first),
            self.preprocess,
            augmentation=training_data.augmentation(self.config),
            targets=self.targets,
            most_at_once=most_at_once,
        )

    def _plan(self, step: int | tf.Tensor) -> ReadPlan:
        """Of one host that feeds one replica: on any others a global batch is the same."""
        global_batch = self.config.global_batch
        return training_data.read_plan(
            self.config, self.data, share=Share(global_batch=global_batch), position=step * global_batch
        )


def _of_step(read: Callable[[tf.Tensor], tf.data.Dataset]) -> Callable[[tf.Tensor], tuple]:
    """A function of a step, int64 [], to the first element of what `read` gives from there on.

    Tracing a pipeline takes a second or more, running it milliseconds.
    """

    @tf.function(autograph=False, input_signature=[tf.TensorSpec([], tf.int64)])
    def first(step: tf.Tensor) -> tuple:
        return read(step).take(1).get_single_element()

    return first
