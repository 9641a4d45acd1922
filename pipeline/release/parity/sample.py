"""Some rows of a holdout: as records, as features, and as training gives them to the model."""

import dataclasses
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence

import keras
import numpy as np
import tensorflow as tf

from pipeline.data.dataset.manifest import Dataset
from pipeline.data.dataset.selection import Selection
from pipeline.data.integrity.damage import naming_damage
from pipeline.data.preprocessing import example_writer
from pipeline.data.preprocessing.preprocess import Preprocess
from pipeline.data.reading import parsing, windows
from pipeline.data.schema.kinds import Label
from pipeline.data.schema.schema import Schema
from pipeline.data.tracing import as_written
from pipeline.training.tasks.registry import task_of

BATCH = 256


@dataclasses.dataclass(frozen=True, kw_only=True)
class Sample:
    """Attributes:

    stored: rows as they are read, string [n] or uint16 [n, words].
    places: of each row its shard, as the manifest calls it, and its number there.
    """

    stored: tf.Tensor
    places: Sequence[tuple[str, int]]
    dataset: Dataset

    @property
    def schema(self) -> Schema:
        """That of the dataset."""
        return self.dataset.schema

    def __len__(self) -> int:
        return len(self.stored)

    def batches(self) -> Iterator["Sample"]:
        """The same rows, BATCH at a time: pictures of all would fill the memory."""
        for first in range(0, len(self), BATCH):
            rows = slice(first, first + BATCH)
            yield dataclasses.replace(self, stored=self.stored[rows], places=self.places[rows])

    def features(self) -> Mapping[str, tf.Tensor]:
        """What a record holds, as parsing gives it: [n, …] each."""
        return parsing.stored_features(self.stored, self.schema)

    def examples(self) -> tf.Tensor:
        """Serialized examples, string [n]."""
        if self.stored.dtype == tf.string:
            return self.stored
        features = {name: values.numpy() for name, values in self.features().items()}
        return tf.constant(np.array(example_writer.serialize(features, self.schema), object), tf.string)


def first_rows(selection: Selection, count: int) -> Sample:
    """The first rows of a selection; raises InputError where a record of theirs is damaged."""
    alone = windows.stored_rows(selection).map(as_written(lambda _, rows: rows))
    found, left = [], count
    with naming_damage(selection):
        for rows in alone:
            found.append(rows[:left])
            left -= len(found[-1])
            if not left:
                break
    return Sample(
        stored=tf.concat(found, axis=0),
        places=list(itertools.islice(_places(selection), count)),
        dataset=selection.dataset,
    )


def _places(selection: Selection) -> Iterator[tuple[str, int]]:
    """Of every row, in stored order."""
    shards = selection.shards
    for row in itertools.chain.from_iterable(itertools.starmap(range, selection.ranges)):
        shard = shards.shard_of_row(row)
        yield shards.names[shard], row - int(shards.row_starts[shard])


class AsTrained:
    """What training and evaluation make of rows, by their own code: one graph for batches of any size.

    Args:
      models: each gives predictions, of the same inputs.
      schema: of the dataset that the rows are of.
    """

    def __init__(
        self, preprocess: Preprocess, models: Sequence[keras.Model], label: Label, *, schema: Schema
    ) -> None:
        task = task_of(label)

        def computed(rows: tf.Tensor) -> tuple[Mapping[str, tf.Tensor], list[tf.Tensor]]:
            inputs = preprocess(parsing.parse_rows(rows, schema)[0])
            return inputs, [task.predictions(model(inputs, training=False)) for model in models]

        self._computed = computed
        self._graph: Callable | None = None

    def __call__(self, sample: Sample) -> tuple[Mapping[str, np.ndarray], list[np.ndarray]]:
        """The models' inputs by name, [n, …] each, and the predictions of each model, [n, …]."""
        if self._graph is None:
            rows = tf.TensorSpec([None, *sample.stored.shape[1:]], sample.stored.dtype)
            self._graph = tf.function(self._computed, input_signature=[rows], autograph=False)
        return tf.nest.map_structure(lambda tensor: tensor.numpy(), self._graph(sample.stored))
