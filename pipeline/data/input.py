"""Batches for training and evaluation, one replica's share at a time, with static shapes.

Made for `strategy.distribute_datasets_from_function`: replica r of R takes the r-th run of
`global_batch / R` examples of each global batch, however the replicas are spread over hosts.
"""

import functools
import math
from collections.abc import Sequence

import tensorflow as tf

from pipeline.data import parse, reader, recipe, share
from pipeline.data.augment import Augmentation, augment_image, decode_training_image
from pipeline.data.errors import InputError
from pipeline.data.features import Image
from pipeline.data.graph import as_written
from pipeline.data.mixture import Source, main_of, mixed_rows
from pipeline.data.pixels import normalize
from pipeline.data.preprocess import Preprocess
from pipeline.data.recipe import Recipe, Stage
from pipeline.data.selection import Selection
from pipeline.data.service import at_services
from pipeline.data.share import Share

# What is prepared at once and then cut into batches: an operation costs some 10 µs to call, but groups that
# the processor's cache does not hold cost more.
GROUP_ROWS = 1 << 14
GROUP_BYTES = 4 << 20  # 4 MiB
IMAGES_BYTES = 64 << 20  # 64 MiB of images that one thread prepares, encoded and decoded


def training_batches(
    source: Source,
    preprocess: Preprocess,
    *,
    global_batch: int,
    seed: int,
    position: int = 0,
    shuffle: str = "auto",
    augmentation: Augmentation = Augmentation(),
    data_service: Sequence[str] = (),
    context: tf.distribute.InputContext | None = None,
) -> tf.data.Dataset:
    """Endless batches (inputs, labels) of one replica; they run across epoch boundaries.

    Args:
      position: examples consumed since the start of training; with the seed, the whole state.
      shuffle: "auto", "global" or "windows"; see reader.py.
      data_service: addresses of the tf.data services that prepare the batches; empty: this host does.
    """
    recipe_of = functools.partial(
        training_recipe,
        source,
        preprocess,
        global_batch=global_batch,
        seed=seed,
        position=position,
        shuffle=shuffle,
        augmentation=augmentation,
        context=context,
    )
    if not data_service:
        return recipe_of().dataset()
    _check_can_be_served(source, shuffle)
    recipes = [recipe_of(services=len(data_service), service=i) for i in range(len(data_service))]
    turns = at_services([each.turns() for each in recipes], data_service)
    return recipes[0].batched(turns, rows=recipes[0].turn)


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
    order = {"shuffle": shuffle, "seed": seed, "position": position}
    if selection.dataset.schema.of_kind(Image):
        rows = _images_at_once(selection, preprocess, mine)
        stages = image_stages(selection, preprocess, augmentation=augmentation, seed=seed)
        return Recipe(
            read=lambda: _share_of(source, mine, **order, batches=1, rows=rows),
            rows_read=rows,
            batch=mine.batch,
            stages=(*stages, prepare),
            turn=mine.examples,
        )
    batches = _batches_at_once(selection, mine)
    many_batches = functools.partial(
        Recipe, rows_read=batches * mine.examples, batch=mine.batch, turn=batches * mine.examples
    )
    stages = (parse_stage(selection), prepare)
    if isinstance(source, Selection) and reader.way_of(source, shuffle) == "mapped":
        gather = gather_stage(source, mine, seed=seed, batches=batches)
        return many_batches(read=lambda: mine.firsts(position, batches=batches), stages=(gather, *stages))
    return many_batches(read=lambda: _share_of(source, mine, **order, batches=batches), stages=stages)


def evaluation_batches(
    selection: Selection,
    preprocess: Preprocess,
    *,
    global_batch: int,
    context: tf.distribute.InputContext | None = None,
) -> tf.data.Dataset:
    """Batches (inputs, labels, mask) that hold every row of the selection once.

    The last global batch is filled up with copies whose mask is 0; mask is float32 [batch].
    """
    mine = share.of_context(context, global_batch=global_batch)
    rows = selection.rows
    padding = evaluation_steps(rows, global_batch) * global_batch - rows
    stored = reader.stored_rows(selection)
    copies = stored.take(1).map(as_written(lambda _, first: _copies(first, first_place=rows, count=padding)))
    padded = stored.concatenate(copies) if padding else stored
    parse_rows = parse_stage(selection)

    def prepare(places: tf.Tensor, raw: tf.Tensor) -> tuple:
        features, labels = parse_rows.apply(places, raw)
        return preprocess(features), labels, tf.cast(places < rows, tf.float32)

    batches = recipe.rebatched(mine.of_groups(padded), mine.batch)
    stages = (Stage(name="prepare", apply=prepare),)
    return recipe.apply(batches, stages).prefetch(tf.data.AUTOTUNE).with_options(recipe.options())


def evaluation_steps(rows: int, global_batch: int) -> int:
    """Global batches that hold `rows` examples, the last one filled up."""
    return -(-rows // global_batch)


def gather_stage(selection: Selection, mine: Share, *, seed: int, batches: int) -> Stage:
    """First place of so many global batches, int64 [] → (places, words) of the rows read here."""
    gather = reader.gather_mapped(selection, seed=seed)
    return Stage(name="gather", apply=lambda first: gather(mine.places(first, batches=batches)))


def parse_stage(selection: Selection) -> Stage:
    """(places, rows) → (raw features, labels)."""
    schema = selection.dataset.schema
    return Stage(name="parse", apply=lambda places, rows: parse.parse_rows(rows, schema))


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


def _images_at_once(selection: Selection, preprocess: Preprocess, mine: Share) -> int:
    """A batch, or as large a part of one as may be held by every thread."""
    image_bytes = math.prod(preprocess.inputs.image_shape) + selection.shards.mean_bytes
    most = max(1, min(mine.batch, int(IMAGES_BYTES / image_bytes)))
    return next(rows for rows in range(most, 0, -1) if mine.batch % rows == 0)


def _batches_at_once(selection: Selection, mine: Share) -> int:
    row_bytes = selection.shards.mean_bytes / selection.shards.rows_in_record
    rows = min(GROUP_ROWS, GROUP_BYTES // row_bytes)
    return max(1, int(rows // mine.global_batch))


def _share_of(
    source: Source,
    mine: Share,
    *,
    shuffle: str,
    seed: int,
    position: int,
    batches: int,
    rows: int | None = None,
) -> tf.data.Dataset:
    """`reader.share_of`, of mixtures too."""
    order = {"shuffle": shuffle, "seed": seed, "position": position}
    if isinstance(source, Selection):
        return reader.share_of(source, mine, **order, batches=batches, rows=rows)
    mixed = mine.of_groups(mixed_rows(source, **order), batches=batches)
    return recipe.rebatched(mixed, rows or batches * mine.examples)


def _check_can_be_served(source: Source, shuffle: str) -> None:
    if reader.way_of(main_of(source), shuffle) == "mapped":
        raise InputError(
            "--data_service",
            received=f"--config.shuffle={shuffle} and blocks, which are mapped into one host's memory",
            expected="rows that other hosts can read",
            action="Set --config.shuffle=windows, or leave --data_service out: blocks hardly need it.",
        )


def _copies(rows: tf.Tensor, *, first_place: int, count: int) -> tuple[tf.Tensor, tf.Tensor]:
    places = first_place + tf.range(count, dtype=tf.int64)
    return places, tf.repeat(rows[:1], count, axis=0)
