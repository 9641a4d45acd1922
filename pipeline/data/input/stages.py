"""The input pipeline as named stages: run together for training, or one at a time to see what each costs."""

import dataclasses
import itertools
from collections.abc import Callable, Sequence

import tensorflow as tf

from pipeline.base.tracing import for_each, no_autograph
from pipeline.data.images.augmentation import Augmentation
from pipeline.data.images.pixels import normalize
from pipeline.data.images.training_image import (
    CropPlan,
    augment_image,
    decode_planned,
    decode_training_image,
    mixed_pair,
    plan_crops,
)
from pipeline.data.preprocessing.preprocess import Preprocess
from pipeline.data.reading import parsing
from pipeline.data.reading.fetch import READY, InFlight, dataset_options
from pipeline.data.reading.sharding import rebatched
from pipeline.data.schema.schema import Schema


@dataclasses.dataclass(frozen=True, kw_only=True)
class Stage:
    """A step of the pipeline: a pure function from the tensors of the stage before to those of this stage."""

    name: str
    apply: Callable[..., tuple]  # function of a group's tensors, [n, …] each
    each: bool = False  # whether it takes one row's tensors instead, and is called for every row
    # The most calls that run at once. None means one for each core, as for TensorFlow's own operations; 1 is
    # for a Python function, which holds the interpreter's lock.
    at_once: float | None = None


@dataclasses.dataclass(frozen=True, kw_only=True)
class Recipe:
    """The recipe of one replica's batches: rows are read and prepared in groups, then batched.

    Where files are mapped into memory, `read` gives only the position at which a group of rows starts;
    the rows themselves are taken from the mapping.
    """

    # Elements (positions int64 [n], rows [n, …]), or (position int64 [],).
    read: Callable[[], tf.data.Dataset]
    rows_read: int  # n, the rows of an element
    read_at_once: float = 1.0  # the most calls of `read` that run at once, on any number of cores
    batch: int  # examples in one replica's batch
    stages: tuple[Stage, ...] = ()
    in_flight: InFlight | None = None  # parallel reads of the files; None for mapped files
    turn: int = 0  # rows that one of several services prepares in its turn; whole batches
    # The most threads that share one operation; None: one for each core. Where calls already run in parallel,
    # waking more threads for parts of a call took a quarter of the CPU time.
    operation_threads: int | None = None

    def dataset(self) -> tf.data.Dataset:
        """Batches of one replica, (inputs, labels) [batch, …] each, in a fixed order, as fast as possible."""
        return self.batched(self._prepared(), rows=self.rows_read)

    def turns(self) -> tf.data.Dataset:
        """Groups (inputs, labels) [turn, …], each of which a service gives in its turn."""
        prepared = self._prepared()
        turns = prepared if self.turn == self.rows_read else rebatched(prepared, self.turn)
        return turns.with_options(dataset_options(self.operation_threads, is_served=True))

    def batched(self, prepared: tf.data.Dataset, *, rows: int) -> tf.data.Dataset:
        """Groups [rows, …] of prepared examples → batches [batch, …] of them."""
        if not self.cuts_batches(rows):
            batches = rebatched(prepared, self.batch).prefetch(READY)
        else:
            # Threads pass on whole groups: passing on a small batch costs more than cutting it out.
            batches = rebatched(prepared.prefetch(READY), self.batch)
        return batches.with_options(dataset_options(self.operation_threads))

    def cuts_batches(self, rows: int) -> bool:
        """Returns whether the consumer cuts groups of `rows` rows into batches, in its own thread."""
        return rows % self.batch == 0

    def _prepared(self) -> tf.data.Dataset:
        return apply(self.read(), self.stages)


def apply(dataset: tf.data.Dataset, stages: Sequence[Stage]) -> tf.data.Dataset:
    """Runs all stages in one parallel map, whose elements keep their order."""
    if not stages:
        return dataset
    return dataset.map(fused(stages), num_parallel_calls=tf.data.AUTOTUNE, deterministic=True)


def fused(stages: Sequence[Stage]) -> Callable[..., tuple]:
    """All stages as one function of a group's tensors, [n, …] each."""

    @no_autograph
    def run(*group: tf.Tensor) -> tuple:
        for each, some in itertools.groupby(stages, key=lambda stage: stage.each):
            group = (_for_each_row if each else _chained)(tuple(some), group)
        return group

    return run


def _chained(stages: Sequence[Stage], element: tuple) -> tuple:
    for stage in stages:
        element = stage.apply(*element)
    return element


def _for_each_row(stages: Sequence[Stage], group: tuple) -> tuple:
    return for_each(lambda *row: _chained(stages, row), group)


# --- Stages of training images: parsed together, decoded and changed one by one, mixed in pairs, normalized.

Features = dict[str, tf.Tensor]


def image_stages(
    schema: Schema, preprocess: Preprocess, *, augmentation: Augmentation, seed: int
) -> tuple[Stage, ...]:
    """(positions int64 [n], records string [n]) → (raw features, whose images are pixels, labels [n]).

    Crops are planned for a group at once. Where images are mixed, n is even, and the last tensor is each
    example's share in its mixed image, float32 [n].
    """
    image, inputs = preprocess.image, preprocess.inputs
    draws = {"augmentation": augmentation, "seed": seed}
    how = {"shape": inputs.image_shape, "max_pixels": image.max_pixels, **draws}

    def parse(positions: tf.Tensor, records: tf.Tensor) -> tuple:
        return positions, *parsing.parse_examples(records, schema)

    def crop(positions: tf.Tensor, features: Features, labels: tf.Tensor) -> tuple:
        return positions, features, labels, plan_crops(features[image.name], positions, **how)

    def decode(position: tf.Tensor, features: Features, label: tf.Tensor, *plan: CropPlan) -> tuple:
        decode_one = decode_planned if plan else decode_training_image
        pixels = decode_one(features[image.name], position, *plan, **how)
        return position, features | {image.name: pixels}, label

    def augment(position: tf.Tensor, features: Features, label: tf.Tensor) -> tuple:
        changed = features | {image.name: augment_image(features[image.name], position, **draws)}
        return (position, changed, label) if augmentation.mixes else (changed, label)

    def mix(positions: tf.Tensor, features: Features, labels: tf.Tensor) -> tuple:
        pixels = features[image.name]
        mixed, shares = tf.map_fn(
            lambda pair: mixed_pair(*pair, **draws),
            (tf.reshape(pixels, [-1, 2, *pixels.shape[1:]]), positions[::2]),
            fn_output_signature=(
                tf.TensorSpec([2, *pixels.shape[1:]], tf.uint8),
                tf.TensorSpec([], tf.float32),
            ),
            parallel_iterations=1,
        )
        pixels = tf.reshape(mixed, [-1, *pixels.shape[1:]])
        return features | {image.name: pixels}, labels, tf.repeat(shares, 2)

    def to_image_dtype(features: Features, labels: tf.Tensor, *shares: tf.Tensor) -> tuple:
        pixels = normalize(features[image.name], inputs.image_dtype)
        return features | {image.name: pixels}, labels, *shares

    return (
        Stage(name="parse", apply=parse),
        *([Stage(name="crop", apply=crop)] if augmentation.crops else []),
        Stage(name="decode", apply=decode, each=True),
        Stage(name="augment", apply=augment, each=True),
        *([Stage(name="mix", apply=mix)] if augmentation.mixes else []),
        Stage(name="normalize", apply=to_image_dtype),
    )
