"""What a config trains on, and how it is read: the same for a run and for its feed certificate."""

from collections.abc import Mapping, Sequence

import tensorflow as tf
from ml_collections import ConfigDict

from pipeline.base.errors import InputError
from pipeline.data.dataset.selection import Selection, select
from pipeline.data.dataset.window import open_window
from pipeline.data.images.augmentation import Augmentation
from pipeline.data.input.training import Targets, require_mixable
from pipeline.data.preprocessing.preprocess import ModelInputs
from pipeline.data.reading.plan import Mixture, Part, ReadPlan, TrainingData, plan_reading
from pipeline.data.reading.sharding import Share
from pipeline.data.schema.schema import Schema
from pipeline.training.experiment import example_weights


def others(config: ConfigDict) -> dict[str, Selection]:
    """What a mixture takes besides --dataset, by a name that is no split's."""
    return {
        _name(directory, split): select(open_window([directory]), split)
        for directory, split, _ in _mixed(config)
    }


def training_data(config: ConfigDict, selections: Mapping[str, Selection]) -> TrainingData:
    """All that is trained on; `selections` holds `config.train.split` and `others`."""
    main = Part(selection=selections[config.train.split], weight=config.train.weight)
    more = [
        Part(selection=selections[_name(directory, split)], weight=weight)
        for directory, split, weight in _mixed(config)
    ]
    return Mixture(parts=(main, *more)) if more else main.selection


def mixture_digests(config: ConfigDict, selections: Mapping[str, Selection]) -> tuple[str, ...]:
    """Of the datasets of `config.mixture`, in its order."""
    return tuple(
        selections[_name(directory, split)].dataset.manifest.digest for directory, split, _ in _mixed(config)
    )


def read_plan(
    config: ConfigDict, data: TrainingData, *, share: Share, position: int | tf.Tensor = 0
) -> ReadPlan:
    """How it is read by one host."""
    return plan_reading(data, share=share, seed=config.seed, position=position, shuffle=config.shuffle)


def augmentation(config: ConfigDict) -> Augmentation:
    """What images go through on the way; raises InputError for a value out of range."""
    return Augmentation(**config.augmentation)


def check_augmentation(config: ConfigDict, inputs: ModelInputs, *, replicas: int) -> None:
    """Raises InputError where data cannot be changed so: before a run writes what it is bound to."""
    batch = config.global_batch // replicas
    require_mixable(augmentation(config), inputs, batch=batch, replicas=replicas)


def targets(config: ConfigDict, schema: Schema) -> Targets:
    """What a step gets besides the model's inputs; raises InputError for a column that cannot be weights."""
    return Targets(weights=example_weights.column(config, schema))


def _mixed(config: ConfigDict) -> Sequence[tuple[str, str, float]]:
    """`config.mixture`; raises InputError where it is anything else than directories, splits and weights."""
    for part in config.mixture:
        if not _is_mixed(part):
            raise InputError(
                "--config.mixture",
                received=repr(part),
                expected="a directory, a split and a weight for each dataset",
                action="Write it as (('data/old/1.0.0', 'train', 0.5),).",
            )
    return config.mixture


def _is_mixed(part: object) -> bool:
    if not isinstance(part, (list, tuple)) or len(part) != 3:
        return False
    *names, weight = part
    is_number = isinstance(weight, (int, float)) and not isinstance(weight, bool)
    return is_number and all(isinstance(name, str) and name for name in names)


def _name(directory: str, split: str) -> str:
    return f"{directory}: {split}"


def repetition(global_batch: int, rows: int) -> str:
    """What is said of a global batch that holds more than an epoch; empty where it does not."""
    if global_batch <= rows:
        return ""
    return (
        f"a global batch of {global_batch:,} holds each of the {rows:,} examples "
        f"{global_batch / rows:,.1f} times on average; with --config.global_batch={rows} or less, none twice"
    )
