"""Batches for training and evaluation, one replica's share at a time, with static shapes.

Made for `strategy.distribute_datasets_from_function`: replica r of R takes the r-th run of
`global_batch / R` examples of each global batch, however the replicas are spread over hosts.
"""

from collections.abc import Sequence

import tensorflow as tf

from pipeline.base.errors import InputError
from pipeline.base.tracing import no_autograph
from pipeline.data.dataset import manifest
from pipeline.data.dataset.selection import Selection
from pipeline.data.images.augmentation import Augmentation
from pipeline.data.input import stages
from pipeline.data.input.service import FLAG, in_turn, side_by_side
from pipeline.data.input.stages import Stage
from pipeline.data.input.training import Targets, parse_stage, training_recipe
from pipeline.data.preprocessing.preprocess import Preprocess
from pipeline.data.reading import parsing, stream, windows
from pipeline.data.reading.fetch import READY, dataset_options
from pipeline.data.reading.plan import ReadPlan, TrainingData, parts_of
from pipeline.data.reading.sharding import Share, rebatched

_RAW_ROWS = 1 << 10  # rows that are read at once


def training_batches(
    plan: ReadPlan,
    preprocess: Preprocess,
    *,
    augmentation: Augmentation = Augmentation(),
    targets: Targets = Targets(),
    data_service: Sequence[str] = (),
    most_at_once: int | None = None,
) -> tf.data.Dataset:
    """Endless batches (inputs, targets) of one replica; they run across epoch boundaries.

    Args:
      targets: makes the targets, by default the labels [batch] alone.
      data_service: addresses of the tf.data services that prepare the batches; empty: this host does.
      most_at_once: the most global batches that this host prepares at once, where only a few are wanted.

    Raises:
      InputError: no service answers at an address, the data cannot be served, or a file that is mapped into
        memory is not what was published.
    """
    if not data_service:
        recipe = training_recipe(
            plan, preprocess, augmentation=augmentation, targets=targets, most_at_once=most_at_once
        )
        return recipe.dataset()
    _check_can_be_served(plan)
    # Neighbours that are mixed with each other stay together in whole batches.
    cuts_batches = stream.way_of(plan).cuts_batches and not augmentation.mixes
    plans = [
        plan.of_service(index, count=len(data_service), cuts_batches=cuts_batches)
        for index in range(len(data_service))
    ]
    recipes = [
        training_recipe(each, preprocess, augmentation=augmentation, targets=targets) for each in plans
    ]
    turns, batches = [recipe.turns() for recipe in recipes], recipes[0].turn // plans[0].share.examples
    manifests = _manifests(plan.data)
    if cuts_batches:
        served = side_by_side(turns, data_service, runs=batches, manifests=manifests)
    else:
        served = in_turn(turns, data_service, manifests=manifests)
    return recipes[0].batched(served, rows=batches * plan.share.host_examples)


def raw_batches(plan: ReadPlan) -> tf.data.Dataset:
    """Endless batches of one replica, of what the records hold, with the label: see `stored_features`.

    The rows are those of `training_batches`.

    Raises:
      InputError: a file that is mapped into memory is not what was published.
    """
    schema, batch = plan.selection.dataset.schema, plan.share.batch
    read = Stage(name="read", apply=lambda positions, rows: parsing.stored_features(rows, schema))
    groups = rebatched(stream.read(plan, batches=max(1, _RAW_ROWS // plan.share.global_batch)), batch)
    return stages.apply(groups, (read,)).prefetch(READY).with_options(dataset_options())


def evaluation_batches(
    selection: Selection, preprocess: Preprocess, *, share: Share, targets: Targets = Targets()
) -> tf.data.Dataset:
    """Batches (inputs, targets, mask float32 [batch]) that hold every row of the selection once.

    Each host reads an equally long range of the stored rows. The end is filled up with copies of a row, whose
    mask is 0.

    Args:
      targets: makes the targets, by default the labels [batch] alone.
    """
    first, end = (evaluation_steps(selection.rows, share.global_batch) * cut for cut in share.run)
    rows = max(0, min(end, selection.rows) - first)
    # A host for which no row is left reads one, to copy it.
    here = selection.part(min(first, selection.rows - 1), end)
    padding = end - first - here.rows
    stored = windows.stored_rows(here)
    copies = stored.take(1).map(no_autograph(lambda _, some: _copies(some, first=here.rows, count=padding)))
    padded = stored.concatenate(copies) if padding else stored
    parse = parse_stage(selection.dataset.schema)

    def prepare(positions: tf.Tensor, raw: tf.Tensor) -> tuple:
        features, labels = parse.apply(positions, raw)
        return preprocess(features), targets(features, labels), tf.cast(positions < rows, tf.float32)

    batches = rebatched(padded, share.batch)
    prepared = stages.apply(batches, (Stage(name="prepare", apply=prepare),))
    return prepared.prefetch(READY)  # keeps the options of the stored rows


def evaluation_steps(rows: int, global_batch: int) -> int:
    """Global batches that hold `rows` examples, the last one filled up."""
    return -(-rows // global_batch)


def _check_can_be_served(plan: ReadPlan) -> None:
    if stream.way_of(plan).is_local:
        raise InputError(
            FLAG,
            received="blocks, which --config.shuffle=auto and =global map into one host's memory",
            expected="rows that other hosts can read",
            action=f"Set --config.shuffle=windows, or leave {FLAG} out: blocks hardly need it.",
        )


def _manifests(data: TrainingData) -> list[str]:
    """Paths of the manifests of all datasets that are read."""
    published = [dataset for selection in parts_of(data) for dataset in selection.dataset.published]
    return [str(dataset.directory / manifest.FILE_NAME) for dataset in published if dataset.state]


def _copies(rows: tf.Tensor, *, first: int, count: int) -> tuple[tf.Tensor, tf.Tensor]:
    """`count` copies of the first row, at the positions from `first` on."""
    positions = first + tf.range(count, dtype=tf.int64)
    return positions, tf.gather(rows, tf.zeros([count], tf.int32))  # `repeat` does not take uint16
