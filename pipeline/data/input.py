"""Batches for training and evaluation, one replica's share at a time, with static shapes.

Made for `strategy.distribute_datasets_from_function`: replica r of R takes the r-th run of
`global_batch / R` examples of each global batch, however the replicas are spread over hosts.
"""

import functools
from collections.abc import Sequence

import tensorflow as tf

from pipeline.data import reader, recipe, share
from pipeline.data.augment import Augmentation
from pipeline.data.errors import InputError
from pipeline.data.graph import as_written
from pipeline.data.mixture import Source, main_of
from pipeline.data.preprocess import Preprocess
from pipeline.data.recipe import Stage
from pipeline.data.selection import Selection
from pipeline.data.service import at_services
from pipeline.data.training_recipe import parse_stage, training_recipe


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

    batches = share.rebatched(mine.of_groups(padded), mine.batch)
    stages = (Stage(name="prepare", apply=prepare),)
    return recipe.apply(batches, stages).prefetch(tf.data.AUTOTUNE).with_options(recipe.options())


def evaluation_steps(rows: int, global_batch: int) -> int:
    """Global batches that hold `rows` examples, the last one filled up."""
    return -(-rows // global_batch)


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
    return places, tf.gather(rows, tf.zeros([count], tf.int32))  # repeating takes no uint16
