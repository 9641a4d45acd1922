"""The data on which a config trains, and how they are read: the same for a run and its feed certificate."""

from collections.abc import Mapping

import tensorflow as tf

from pipeline.data.dataset.manifest import Dataset
from pipeline.data.dataset.selection import Selection, select
from pipeline.data.dataset.window import open_window
from pipeline.data.input.training import Targets, require_mixable
from pipeline.data.preprocessing.preprocess import ModelInputs
from pipeline.data.reading.plan import Mixture, Part, ReadPlan, TrainingData, plan_reading
from pipeline.data.reading.sharding import Share
from pipeline.data.schema.schema import Schema
from pipeline.training.experiment import example_weights
from pipeline.training.experiment.config import Data


def selections_of(data: Data, dataset: Dataset) -> dict[str, Selection]:
    """Returns all data to train on, by name: the split of --dataset, and the rest of a mixture."""
    return {data.split: select(dataset, data.split), **others(data)}


def others(data: Data) -> dict[str, Selection]:
    """Returns the selections of a mixture besides --dataset, by a name that no split has."""
    return {each.name: select(open_window([each.directory]), each.split) for each in data.mixture}


def training_data(data: Data, selections: Mapping[str, Selection]) -> TrainingData:
    """Puts the training data together; `selections` holds the selection of `data.split` and those of
    `others`.
    """
    main = Part(selection=selections[data.split], weight=data.weight)
    more = [Part(selection=selections[each.name], weight=each.weight) for each in data.mixture]
    return Mixture(parts=(main, *more)) if more else main.selection


def mixture_digests(data: Data, selections: Mapping[str, Selection]) -> tuple[str, ...]:
    """The digests of the datasets of the mixture, in its order."""
    return tuple(selections[each.name].dataset.manifest.digest for each in data.mixture)


def read_plan(
    data: Data, trained_on: TrainingData, *, share: Share, position: int | tf.Tensor = 0
) -> ReadPlan:
    """Plans how one host reads the training data."""
    return plan_reading(trained_on, share=share, seed=data.seed, position=position, shuffle=data.shuffle)


def check_augmentation(data: Data, inputs: ModelInputs, *, replicas: int) -> None:
    """Raises InputError where data cannot be augmented like this; it is called before a run writes
    anything.
    """
    require_mixable(data.augmentation, inputs, batch=data.global_batch // replicas, replicas=replicas)


def targets(data: Data, schema: Schema) -> Targets:
    """Returns the targets of a step; raises InputError for a column that cannot be weights."""
    return Targets(weights=example_weights.column(data.example_weights, schema))


def repetition(global_batch: int, rows: int) -> str:
    """A warning for a global batch that holds more than an epoch; empty where it does not."""
    if global_batch <= rows:
        return ""
    return (
        f"a global batch of {global_batch:,} holds each of the {rows:,} examples "
        f"{global_batch / rows:,.1f} times on average; with --config.global_batch={rows} or less, none twice"
    )
