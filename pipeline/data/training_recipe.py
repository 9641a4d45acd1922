"""What training does to its data, as a recipe: how rows are read, and the stages that they go through."""

import functools
import math

import tensorflow as tf

from pipeline.data import parse, reader, share
from pipeline.data.augment import Augmentation, augment_image, decode_training_image
from pipeline.data.features import Image
from pipeline.data.mixture import Source, main_of, mixed_rows
from pipeline.data.pixels import normalize
from pipeline.data.preprocess import Preprocess
from pipeline.data.reader import Stream
from pipeline.data.recipe import Recipe, Stage
from pipeline.data.selection import Selection
from pipeline.data.share import Share, rebatched

# What is prepared at once and then cut into batches: an operation costs some 10 µs to call, but groups that
# the processor's cache does not hold cost more.
GROUP_ROWS = 1 << 14
GROUP_BYTES = 4 << 20  # 4 MiB
IMAGES_BYTES = 256 << 20  # 256 MiB of images, encoded and as the model takes them, that one thread prepares


def training_recipe(
    source: Source,
    preprocess: Preprocess,
    *,
    global_batch: int,
    seed: int,
    position: int = 0,
    shuffle: str = "auto",
    augmentation: Augmentation = Augmentation(),
    services: int = 1,
    service: int = 0,
    context: tf.distribute.InputContext | None = None,
) -> Recipe:
    """The stages of `training_batches`: of images some rows are prepared at once, of all else many batches.

    Of `services` that share the work in turns, those of the one numbered `service`.
    """
    mine = share.of_context(context, global_batch=global_batch, services=services, service=service)
    selection = main_of(source)
    prepare = Stage(name="preprocess", apply=lambda features, labels: (preprocess(features), labels))
    stream = Stream(shuffle=shuffle, seed=seed, position=position)
    if selection.dataset.schema.of_kind(Image):
        rows = _images_at_once(selection, preprocess, mine)
        stages = image_stages(selection, preprocess, augmentation=augmentation, seed=seed)
        return Recipe(
            read=lambda: rebatched(_share_of(source, mine, stream, batches=1), rows),
            rows_read=rows,
            batch=mine.batch,
            stages=(*stages, prepare),
            turn=mine.examples,
        )
    batches = _batches_at_once(selection, mine)
    rows = batches * mine.examples
    many_batches = functools.partial(Recipe, rows_read=rows, batch=mine.batch, turn=rows)
    stages = (parse_stage(selection), prepare)
    if isinstance(source, Selection) and reader.way_of(source, shuffle) == "mapped":
        gather = gather_stage(source, mine, seed=seed, batches=batches)
        return many_batches(read=lambda: mine.firsts(position, batches=batches), stages=(gather, *stages))
    return many_batches(
        read=lambda: rebatched(_share_of(source, mine, stream, batches=batches), rows), stages=stages
    )


def parse_stage(selection: Selection) -> Stage:
    """(places, rows) → (raw features, labels)."""
    schema = selection.dataset.schema
    return Stage(name="parse", apply=lambda places, rows: parse.parse_rows(rows, schema))


def gather_stage(selection: Selection, mine: Share, *, seed: int, batches: int) -> Stage:
    """First place of so many global batches, int64 [] → (places, words) of the rows read here."""
    gather = reader.gather_mapped(selection, seed=seed)
    return Stage(name="gather", apply=lambda first: gather(mine.places(first, batches=batches)))


def image_stages(
    selection: Selection, preprocess: Preprocess, *, augmentation: Augmentation, seed: int
) -> tuple[Stage, ...]:
    """(places, records) → (raw features, of which the images are pixels, labels)."""
    schema, image = selection.dataset.schema, preprocess.image

    def read(places: tf.Tensor, records: tf.Tensor) -> tuple:
        return places, *parse.parse_examples(records, schema)

    def decode(place: tf.Tensor, features: dict[str, tf.Tensor], label: tf.Tensor) -> tuple:
        pixels = decode_training_image(
            features[image.name],
            place,
            shape=preprocess.inputs.image_shape,
            max_pixels=image.max_pixels,
            augmentation=augmentation,
            seed=seed,
        )
        return place, features | {image.name: pixels}, label

    def augment(place: tf.Tensor, features: dict[str, tf.Tensor], label: tf.Tensor) -> tuple:
        pixels = augment_image(features[image.name], place, augmentation=augmentation, seed=seed)
        return features | {image.name: pixels}, label

    def normalized(features: dict[str, tf.Tensor], labels: tf.Tensor) -> tuple:
        pixels = normalize(features[image.name], preprocess.inputs.image_dtype)
        return features | {image.name: pixels}, labels

    return (
        Stage(name="parse", apply=read),
        Stage(name="decode", apply=decode, each=True),
        Stage(name="augment", apply=augment, each=True),
        Stage(name="normalize", apply=normalized),
    )


def _share_of(source: Source, mine: Share, stream: Stream, *, batches: int) -> tf.data.Dataset:
    """`reader.share_of`, of mixtures too."""
    if isinstance(source, Selection):
        return reader.share_of(source, mine, stream, batches=batches)
    return mine.of_groups(mixed_rows(source, stream), batches=batches)


def _images_at_once(selection: Selection, preprocess: Preprocess, mine: Share) -> int:
    """A batch, or as large a part of one as may be held by every thread."""
    inputs = preprocess.inputs
    decoded_bytes = math.prod(inputs.image_shape) * tf.as_dtype(inputs.image_dtype).size
    image_bytes = decoded_bytes + selection.shards.mean_bytes
    most = max(1, min(mine.batch, int(IMAGES_BYTES / image_bytes)))
    return next(rows for rows in range(most, 0, -1) if mine.batch % rows == 0)


def _batches_at_once(selection: Selection, mine: Share) -> int:
    row_bytes = selection.shards.mean_bytes / selection.shards.rows_in_record
    rows = min(GROUP_ROWS, GROUP_BYTES // row_bytes)
    return max(1, int(rows // mine.global_batch))
