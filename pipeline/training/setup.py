"""Everything about a run that is decided before a model is built, with what the user is told about it."""

import dataclasses
from collections.abc import Mapping

import tensorflow as tf
from ml_collections import ConfigDict

from pipeline.data import loss_budget
from pipeline.data.damage import listed
from pipeline.data.errors import InputError
from pipeline.data.loss_budget import Damage
from pipeline.data.manifest import Dataset
from pipeline.data.mixture import Source
from pipeline.data.selection import Selection, select
from pipeline.training import precision as precision_lib
from pipeline.training import record as record_lib
from pipeline.training import source as source_lib
from pipeline.training import strategy as strategy_lib
from pipeline.training import workdir as files
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
    selections: Mapping[str, Selection]  # by split expression: what is read
    damage: Damage  # what all of them leave out
    workdir: Workdir
    strategy: tf.distribute.Strategy
    precision: Precision
    jit_compile: bool
    cadence: Cadence
    validation_split: str  # empty: the dataset has none
    final_split: str
    data_service: tuple[str, ...]  # addresses
    record: dict  # what run.json says of it
    announcement: tuple[str, ...]  # lines

    @property
    def selection(self) -> Selection:
        """What is trained on of --dataset."""
        return self.selections[self.config.train.split]

    @property
    def source(self) -> Source:
        """All that is trained on."""
        return source_lib.source(self.config, self.selections)


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
    workdir = Workdir(request.workdir.absolute())
    validation_split, final_split = _validation_split(config, dataset), _final_split(config, dataset)
    used = {config.train.split, validation_split, final_split} - {""}
    selections, damage = loss_budget.sound(
        {split: select(dataset, split) for split in sorted(used)} | source_lib.others(config),
        budget=request.max_corrupt_records,
        known=_known_damage(workdir),
    )
    cadence = _cadence(config, source_lib.source(config, selections).rows)
    record = record_lib.describe(request, strategy, precision)
    return Setup(
        config=config,
        dataset=dataset,
        selections=selections,
        damage=damage,
        workdir=workdir,
        strategy=strategy,
        precision=precision,
        jit_compile=jit_compile,
        cadence=cadence,
        validation_split=validation_split,
        final_split=final_split,
        data_service=request.data_service,
        record=record
        | {
            "jit_compile": jit_compile,
            "total_steps": cadence.total_steps,
            "damaged_records": len(damage),
        },
        announcement=(
            f"dataset    {dataset.directory}: {_sizes(dataset)}",
            *(
                f"mixed with {directory}: {split}, weight {weight:g} to {config.train.weight:g}"
                for directory, split, weight in config.mixture
            ),
            f"strategy   {strategy_lib.name_of(strategy)}, replicas: {strategy.num_replicas_in_sync}, "
            f"global batch {config.global_batch:,}",
            f"precision  {precision.policy}: {precision.reason}",
            *([f"warning    {precision.warning}"] if precision.warning else []),
            *([f"left out   {listed(damage)}"] if damage else []),
            f"XLA        {'on' if jit_compile else 'off'}: {jit_reason}",
        ),
    )


def _known_damage(workdir: Workdir) -> Damage | None:
    """What the run of this directory left out from its start; None where there is no run yet."""
    left_out = files.read_json(workdir.damaged)
    if left_out:
        return loss_budget.from_json(left_out)
    return () if workdir.run.exists() else None


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
        select(dataset, config.evaluation.final_split)  # raises where there is no such split
        return config.evaluation.final_split
    return next(split for split in ("test", "validation", TRAIN_SPLIT) if split in _filled_splits(dataset))


def _filled_splits(dataset: Dataset) -> dict[str, int]:
    sizes = {split: dataset.rows(split) for split in dataset.manifest.splits}
    return {split: rows for split, rows in sizes.items() if rows}


def _sizes(dataset: Dataset) -> str:
    return ", ".join(f"{split} {rows:,}" for split, rows in _filled_splits(dataset).items())
