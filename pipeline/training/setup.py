"""Everything about a run that is decided before a model is built, with what the user is told about it."""

import dataclasses

import tensorflow as tf
from ml_collections import ConfigDict

from pipeline.data.errors import InputError
from pipeline.data.manifest import Dataset
from pipeline.training import precision as precision_lib
from pipeline.training import record as record_lib
from pipeline.training import strategy as strategy_lib
from pipeline.training.cadence import Cadence, total_steps
from pipeline.training.precision import Precision
from pipeline.training.record import Request
from pipeline.training.workdir import Workdir

TRAIN_SPLIT = "train"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Setup:
    """A request, resolved on this machine."""

    config: ConfigDict
    dataset: Dataset
    workdir: Workdir
    strategy: tf.distribute.Strategy
    precision: Precision
    jit_compile: bool
    cadence: Cadence
    validation_split: str  # empty: the dataset has none
    final_split: str
    record: dict  # what run.json says of it
    announcement: tuple[str, ...]  # lines


def decide(request: Request) -> Setup:
    """Resolves a request; raises InputError where something in it is wrong.

    Call it before anything else touches TensorFlow's devices.
    """
    config, dataset = request.config, request.dataset
    strategy = strategy_lib.create(request.strategy, logical_devices=request.logical_devices)
    for key in ("global_batch", "evaluation.global_batch"):
        strategy_lib.require_divisible(key, record_lib.field(config, key), strategy)
    precision = precision_lib.choose(request.precision, precision_lib.detect(strategy))
    jit_compile, jit_reason = strategy_lib.jit_compile(config.train.jit_compile, strategy)
    cadence = _cadence(config, dataset.records(TRAIN_SPLIT))
    record = record_lib.describe(request, strategy, precision)
    return Setup(
        config=config,
        dataset=dataset,
        workdir=Workdir(request.workdir.absolute()),
        strategy=strategy,
        precision=precision,
        jit_compile=jit_compile,
        cadence=cadence,
        validation_split=_validation_split(config, dataset),
        final_split=_final_split(config, dataset),
        record=record | {"jit_compile": jit_compile, "total_steps": cadence.total_steps},
        announcement=(
            f"dataset    {dataset.directory}: {_sizes(dataset)}",
            f"strategy   {strategy_lib.name_of(strategy)}, replicas: {strategy.num_replicas_in_sync}, "
            f"global batch {config.global_batch:,}",
            f"precision  {precision.policy}: {precision.reason}",
            *([f"warning    {precision.warning}"] if precision.warning else []),
            f"XLA        {'on' if jit_compile else 'off'}: {jit_reason}",
        ),
    )


def _cadence(config: ConfigDict, records: int) -> Cadence:
    for key in ("steps_per_loop", "log_every_steps", "checkpoint_every_steps"):
        _require_positive(f"train.{key}", config.train[key])
    if not config.train.steps:
        _require_positive("train.epochs", config.train.epochs)
    return Cadence(
        records=records,
        global_batch=config.global_batch,
        total_steps=config.train.steps
        or total_steps(epochs=config.train.epochs, records=records, global_batch=config.global_batch),
        steps_per_loop=config.train.steps_per_loop,
        log_every_steps=config.train.log_every_steps,
        checkpoint_every_steps=config.train.checkpoint_every_steps,
    )


def _require_positive(key: str, value: float) -> None:
    if value <= 0:
        raise InputError(
            f"--config.{key}",
            received=value,
            expected="a positive number",
            action="Correct it in the config file or on the command line.",
        )


def _validation_split(config: ConfigDict, dataset: Dataset) -> str:
    name = config.evaluation.split
    return name if name in _filled_splits(dataset) else ""


def _final_split(config: ConfigDict, dataset: Dataset) -> str:
    """The split asked for, or the first there is of test, validation and train."""
    if config.evaluation.final_split:
        dataset.records(config.evaluation.final_split)  # raises where there is no such split
        return config.evaluation.final_split
    return next(split for split in ("test", "validation", TRAIN_SPLIT) if split in _filled_splits(dataset))


def _filled_splits(dataset: Dataset) -> dict[str, int]:
    sizes = {split: dataset.records(split) for split in dataset.manifest.splits}
    return {split: records for split, records in sizes.items() if records}


def _sizes(dataset: Dataset) -> str:
    return ", ".join(f"{split} {records:,}" for split, records in _filled_splits(dataset).items())
