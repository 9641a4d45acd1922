"""Batches for training and evaluation, one replica's share at a time, with static shapes.

Made for `strategy.distribute_datasets_from_function`: replica r of R takes the r-th run of
`global_batch / R` examples of each global batch, however the replicas are spread over hosts.
"""

import functools
from collections.abc import Sequence

import tensorflow as tf

from pipeline.data import parse, reader, recipe, share
from pipeline.data.augment import Augmentation, augment_image, decode_training_image
from pipeline.data.errors import InputError
from pipeline.data.features import Image
from pipeline.data.graph import as_written
from pipeline.data.mixture import Mixture, mixed_rows
from pipeline.data.pixels import normalize
from pipeline.data.preprocess import Preprocess
from pipeline.data.recipe import Recipe, Stage
from pipeline.data.selection import Selection
from pipeline.data.service import at_services
from pipeline.data.share import Share

# What is prepared at once and then parted into batches: an operation costs some 10 µs to call, but chunks
# that the processor's cache does not hold cost more.
CHUNK_ROWS = 1 << 14
CHUNK_BYTES = 2 << 20  # 2 MiB


Source = Selection | Mixture


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
    batches_of_turn = (
        1 if recipes[0].reads_batches else share.of_context(context, global_batch=global_batch).replicas_here
    )
    prepared = [each.prepared().with_options(recipe.options()) for each in recipes]
    return recipes[0].finish(at_services(prepared, data_service, in_turn=batches_of_turn))


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
    """The stages of `training_batches`: images are prepared one by one, everything else in large batches.

    Of `services` that share the work in turns, those of the one numbered `service`.
    """
    mine = share.of_context(context, global_batch=global_batch, services=services, service=service)
    selection = source.main if isinstance(source, Mixture) else source
    prepare = Stage(name="preprocess", apply=lambda features, labels: (preprocess(features), labels))
    if not selection.dataset.schema.of_kind(Image):
        batches = _batches_at_once(selection, mine)
        chunked = functools.partial(Recipe, batch=mine.batch, batches_read=batches * mine.replicas_here)
        stages = (parse_stage(selection), prepare)
        if isinstance(source, Selection) and reader.way_of(source, shuffle) == "mapped":
            gather = gather_stage(source, mine, seed=seed, batches=batches)
            return chunked(read=lambda: mine.firsts(position, batches=batches), per_batch=(gather, *stages))
        read = functools.partial(
            _chunks, source, mine, shuffle=shuffle, seed=seed, position=position, batches=batches
        )
        return chunked(read=read, per_batch=stages)
    return Recipe(
        read=lambda: _one_by_one(source, mine, shuffle=shuffle, seed=seed, position=position),
        batch=mine.batch,
        per_example=image_stages(selection, preprocess, augmentation=augmentation, seed=seed),
        per_batch=(prepare,),
    )


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

    chunks = mine.of_chunks(padded.rebatch(global_batch, drop_remainder=True))
    batches = chunks.rebatch(mine.batch, drop_remainder=True) if mine.replicas_here > 1 else chunks
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
    """(place, record) → (raw features, of which the image is pixels, label), of one example."""
    schema, image = selection.dataset.schema, preprocess.image

    def read(place: tf.Tensor, record: tf.Tensor) -> tuple:
        return place, *parse.parse_example(record, schema)

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
        return features | {image.name: normalize(pixels, preprocess.inputs.image_dtype)}, label

    return (
        Stage(name="parse", apply=read),
        Stage(name="decode", apply=decode),
        Stage(name="augment", apply=augment),
    )


def _batches_at_once(selection: Selection, mine: Share) -> int:
    row_bytes = selection.shards.mean_bytes / selection.shards.rows_in_record
    rows = min(CHUNK_ROWS, CHUNK_BYTES // row_bytes)
    return max(1, int(rows // mine.global_batch))


def _chunks(
    source: Source, mine: Share, *, shuffle: str, seed: int, position: int, batches: int
) -> tf.data.Dataset:
    """Endless (places, rows) of this pipeline's share of so many global batches at once."""
    if isinstance(source, Mixture):
        rows = mixed_rows(source, seed=seed, position=position, shuffle=shuffle)
        return mine.of_chunks(rows.rebatch(batches * mine.global_batch, drop_remainder=True))
    if reader.way_of(source, shuffle) == "windows":
        rows = reader.window_rows(source, seed=seed, position=position)
        return mine.of_chunks(rows.rebatch(batches * mine.global_batch, drop_remainder=True))
    records = reader.single_records(source, mine.positions(position, batches=batches), seed=seed)
    return records.batch(batches * mine.examples, drop_remainder=True)


def _one_by_one(source: Source, mine: Share, *, shuffle: str, seed: int, position: int) -> tf.data.Dataset:
    """Endless (place, record) of this pipeline's share."""
    if isinstance(source, Selection) and reader.way_of(source, shuffle) == "single":
        return reader.single_records(source, mine.positions(position, batches=1), seed=seed)
    return _chunks(source, mine, shuffle=shuffle, seed=seed, position=position, batches=1).unbatch()


def _check_can_be_served(source: Source, shuffle: str) -> None:
    selection = source.main if isinstance(source, Mixture) else source
    if selection.shards.rows_in_record > 1 and shuffle != "windows":
        raise InputError(
            "--data_service",
            received=f"--config.shuffle={shuffle} and blocks, which are mapped into one host's memory",
            expected="rows that other hosts can read",
            action="Set --config.shuffle=windows, or leave --data_service out: blocks hardly need it.",
        )


def _copies(rows: tf.Tensor, *, first_place: int, count: int) -> tuple[tf.Tensor, tf.Tensor]:
    places = first_place + tf.range(count, dtype=tf.int64)
    return places, tf.repeat(rows[:1], count, axis=0)
