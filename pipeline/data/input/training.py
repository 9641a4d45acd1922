"""The input pipeline of training: how rows are read, the stages that they go through, and the targets."""

import dataclasses
import math
from collections.abc import Mapping
from typing import NamedTuple

import tensorflow as tf

from pipeline.base.errors import InputError
from pipeline.data.dataset.shards import Shards
from pipeline.data.images.augmentation import Augmentation
from pipeline.data.input.stages import Recipe, Stage, image_stages
from pipeline.data.preprocessing.preprocess import ModelInputs, Preprocess
from pipeline.data.reading import fetch, parsing, stream
from pipeline.data.reading.plan import ReadPlan
from pipeline.data.reading.sharding import rebatched
from pipeline.data.schema.feature_types import Image, Numeric
from pipeline.data.schema.schema import Schema

# --- Targets: what a step gets besides the model's inputs: labels, weights, and what examples are mixed with.

# Labels [batch]; or labels and the weights of the examples, float32 [batch].
Plain = tf.Tensor | tuple[tf.Tensor, tf.Tensor]


class Mixed(NamedTuple):
    """Targets of mixed examples. `shares`, float32 [batch], is the part of each mixed example that is the
    example itself.
    """

    own: Plain
    other: Plain  # targets of the examples that they are mixed with
    shares: tf.Tensor


TargetsOfBatch = Plain | Mixed


@dataclasses.dataclass(frozen=True, kw_only=True)
class Targets:
    """Makes the targets of a batch from its raw features and labels. `weights` is the column of weights, if
    there is one.
    """

    weights: Numeric | None = None

    def __call__(
        self, features: Mapping[str, tf.Tensor], labels: tf.Tensor, shares: tf.Tensor | None = None
    ) -> TargetsOfBatch:
        """Raw features, each [batch, …], and labels [batch, …] → these labels, with the raw weights.

        Args:
          shares: float32 [batch], where neighbours are mixed: the part of each mixed example that is the
            example itself.
        """
        plain = labels if self.weights is None else (labels, self._raw_weights(features))
        if shares is None:
            return plain
        return Mixed(own=plain, other=tf.nest.map_structure(_swapped, plain), shares=shares)

    def labels_of(self, targets: TargetsOfBatch) -> tf.Tensor:
        """The examples' own labels, [batch, …]."""
        own = own_of(targets)
        return own if self.weights is None else own[0]

    def weights_of(self, targets: TargetsOfBatch) -> tf.Tensor | None:
        """The examples' own weights, float32 [batch]; None where there are none."""
        if self.weights is None:
            return None
        return own_of(targets)[1]

    def _raw_weights(self, features: Mapping[str, tf.Tensor]) -> tf.Tensor:
        # A record holds a number less its offset. They are added in float64, because float32 would round
        # twice.
        stored = tf.cast(features[self.weights.name], tf.float64)
        return tf.cast(stored + self.weights.offset, tf.float32)


def own_of(targets: TargetsOfBatch) -> Plain:
    """The targets of the examples themselves, whatever they are mixed with."""
    return targets.own if isinstance(targets, Mixed) else targets


def partner_of(index: int) -> int:
    """The index in the batch of the example with which this one is mixed: neighbours form pairs."""
    return index ^ 1


def _swapped(rows: tf.Tensor) -> tf.Tensor:
    """Swaps the two neighbours of each pair in [batch, …]."""
    pairs = tf.reshape(rows, [-1, 2, *rows.shape[1:]])
    return tf.reshape(pairs[:, ::-1], [-1, *rows.shape[1:]])


# Limits of a group, which is prepared at once and then cut into batches: an operation costs some 10 µs to
# call, but groups that do not fit into the processor's cache cost more.
GROUP_ROWS = 1 << 14
GROUP_BYTES = 4 << 20  # 4 MiB
IMAGES_BYTES = 256 << 20  # 256 MiB of images, encoded and as the model takes them, that one thread prepares


def training_recipe(
    plan: ReadPlan,
    preprocess: Preprocess,
    *,
    augmentation: Augmentation = Augmentation(),
    targets: Targets = Targets(),
    most_at_once: int | None = None,
) -> Recipe:
    """The stages of `training_batches`. A group is some images, or many batches of other data.

    Args:
      targets: makes what a batch has besides the model's inputs.
      most_at_once: the most global batches that are prepared at once; it does not change the batches.

    Raises:
      InputError: a file that is mapped into memory is not what was published, or examples are to be mixed
        that cannot be.
    """
    share = plan.share
    if augmentation.mixes:
        require_mixable(augmentation, preprocess.inputs, batch=share.batch, replicas=share.replicas)
    schema, way = plan.selection.dataset.schema, stream.way_of(plan)
    has_images = bool(schema.of_type(Image))
    batches = 1 if has_images else min(_batches_at_once(plan), most_at_once or math.inf)
    turn = batches * plan.share.examples
    rows, parse = turn, (parse_stage(schema),)
    if has_images:
        rows = _images_at_once(plan, preprocess, multiple_of=2 if augmentation.mixes else 1)
        parse = image_stages(schema, preprocess, augmentation=augmentation, seed=plan.seed)
    gather = (Stage(name="gather", apply=way.gather(plan, batches)),) if way.gather else ()
    prepare = Stage(
        name="preprocess",
        apply=lambda features, *more: (preprocess(features), targets(features, *more)),
    )

    in_flight = None if way.gather else _in_flight(plan.selection.shards, most=way.most_reads)

    def read() -> tf.data.Dataset:
        elements = way.read(plan, batches)
        return elements if way.gather else rebatched(elements, rows)

    return Recipe(
        read=read,
        rows_read=rows,
        read_at_once=max(way.at_once, in_flight.reads if in_flight else 1),
        in_flight=in_flight,
        batch=plan.share.batch,
        stages=(*gather, *parse, prepare),
        turn=turn,
        operation_threads=1 if way.gather else None,
    )


def parse_stage(schema: Schema) -> Stage:
    """(positions int64 [n], rows [n, …]) → (raw features [n, …] each, labels [n, …])."""
    return Stage(name="parse", apply=lambda positions, rows: parsing.parse_rows(rows, schema))


def require_mixable(augmentation: Augmentation, inputs: ModelInputs, *, batch: int, replicas: int) -> None:
    """Raises InputError where examples are to be mixed but cannot be.

    Args:
      batch: examples of a replica.
    """
    name = "mixup" if augmentation.mixup else "cutmix"
    others = inputs.numeric or inputs.cardinalities or inputs.sequences
    if augmentation.mixes and (inputs.image_shape is None or others):
        raise InputError(
            f"--config.augmentation.{name}",
            received=getattr(augmentation, name),
            expected="0, unless one image is the only input: categories have no mean",
            action="Leave it out.",
        )
    if augmentation.mixes and batch % 2:
        raise InputError(
            f"--config.augmentation.{name}, batch of a replica",
            received=f"{batch:,} example{'s' * (batch != 1)}",
            expected="an even number, because neighbours are mixed in pairs",
            action=f"Set --config.global_batch={(batch + 1) * replicas}, train on another number of "
            f"replicas, or leave {name} out.",
        )


def _in_flight(shards: Shards, *, most: int) -> fetch.InFlight:
    """The parallel reads of these shards' files, at most `most` at once."""
    found = fetch.reads_in_flight(shards)
    return dataclasses.replace(found, reads=min(found.records(shards.mean_bytes), most))


def _images_at_once(plan: ReadPlan, preprocess: Preprocess, *, multiple_of: int) -> int:
    """A batch, or as large a part of one as every thread may hold."""
    inputs, batch = preprocess.inputs, plan.share.batch
    decoded_bytes = math.prod(inputs.image_shape) * tf.as_dtype(inputs.image_dtype).size
    image_bytes = decoded_bytes + plan.selection.shards.mean_bytes
    most = max(multiple_of, min(batch, int(IMAGES_BYTES / image_bytes)))
    return next(rows for rows in range(most, 0, -1) if batch % rows == 0 and rows % multiple_of == 0)


def _batches_at_once(plan: ReadPlan) -> int:
    """The number of global batches in a group that this host reads, at least one."""
    shards = plan.selection.shards
    row_bytes = shards.mean_bytes / shards.rows_in_record
    rows = min(GROUP_ROWS, GROUP_BYTES // row_bytes)
    if not stream.way_of(plan).gather:
        # Where the data have few rows, a larger group would span thousands of epochs, each of which is read
        # again.
        rows = min(rows, plan.data.rows)
    return max(1, int(rows // plan.share.host_examples))
