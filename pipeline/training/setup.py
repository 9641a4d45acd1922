"""What is decided about a run before its model is built, and what the user is told of it."""

import dataclasses
import math
from collections.abc import Mapping

import tensorflow as tf
from ml_collections import ConfigDict

from pipeline.data.commands import flag_values
from pipeline.data.dataset.manifest import Dataset
from pipeline.data.dataset.selection import Selection, select
from pipeline.data.dataset.statistics import SplitStatistics
from pipeline.data.errors import InputError
from pipeline.data.integrity import damage_budget
from pipeline.data.integrity.damage_budget import Damage
from pipeline.data.integrity.scan_memory import ScanMemory
from pipeline.data.reading.mixture import TrainingData
from pipeline.training import announcement, best_checkpoint, warm_start
from pipeline.training.engine import cluster, determinism
from pipeline.training.engine import precision as precision_lib
from pipeline.training.engine import strategy as strategy_lib
from pipeline.training.engine.measures.trace import Steps
from pipeline.training.engine.precision import Precision
from pipeline.training.experiment import evaluation_splits, example_weights, monitored, optimizer, ranges
from pipeline.training.experiment import objective as objective_lib
from pipeline.training.experiment import training_data as training_data_lib
from pipeline.training.loop import bad_steps, callback_checks
from pipeline.training.loop.schedule import Cadence, total_steps
from pipeline.training.request import Request, describe
from pipeline.training.state import continuation, run_record
from pipeline.training.state import workdir as files
from pipeline.training.state.run_record import RunRecord
from pipeline.training.state.start import Start
from pipeline.training.state.workdir import Workdir
from pipeline.training.tasks.objective import Objective
from pipeline.training.weight_check import require_weights


@dataclasses.dataclass(frozen=True, kw_only=True)
class Setup:
    """A request, resolved on this machine."""

    config: ConfigDict
    dataset: Dataset
    selections: Mapping[str, Selection]  # what is read, by split expression
    damage: Damage  # records that the selections leave out
    workdir: Workdir
    strategy: tf.distribute.Strategy
    precision: Precision
    jit_compile: bool
    deterministic: bool  # the same command gives the same bits
    cadence: Cadence
    objective: Objective
    validation_split: str  # empty: the dataset has none
    final_split: str
    data_service: tuple[str, ...]  # addresses
    profile_steps: Steps | None  # to record
    start: Start | None  # what gives the first weights; None: the seed does
    statistics: SplitStatistics  # of what is trained on, or of what the first weights were
    record: RunRecord
    announcement: tuple[str, ...]  # lines

    @property
    def selection(self) -> Selection:
        """The part of --dataset that is trained on."""
        return self.selections[self.config.train.split]

    @property
    def training_data(self) -> TrainingData:
        """All that is trained on."""
        return training_data_lib.training_data(self.config, self.selections)


def decide(request: Request) -> Setup:
    """Resolves a request; raises InputError where something in it is wrong.

    Call it before anything else touches TensorFlow's devices.
    """
    workdir = Workdir(flag_values.absolute(request.workdir))
    before = run_record.read(workdir.run)
    config = continuation.as_begun(request.config, before)
    ranges.check(config)
    request, dataset = dataclasses.replace(request, config=config), request.dataset
    start = warm_start.resolve(
        request.warm_start, workdir=workdir, before=before, config=config, dataset=dataset
    )
    strategy = strategy_lib.create(request.strategy, logical_devices=request.logical_devices)
    if request.deterministic:
        determinism.enable(strategy)
    strategy_lib.require_divisible("global_batch", config.global_batch, strategy)
    _require_whole_parts(config, strategy)
    _require_positive("evaluation.global_batch", config.evaluation.global_batch)
    ignored = cluster.ignored() if strategy_lib.name_of(strategy) == "multi_worker" else ""
    precision = precision_lib.choose(request.precision, precision_lib.detect(strategy))
    jit_compile, jit_reason = strategy_lib.jit_compile(config.train.jit_compile, strategy)
    validation_split = evaluation_splits.validation_split(config, dataset)
    final_split = evaluation_splits.final_split(config, dataset)
    used = {config.train.split, validation_split, final_split} - {""}
    selections, damage = damage_budget.sound(
        {split: select(dataset, split) for split in sorted(used)} | training_data_lib.others(config),
        budget=request.max_corrupt_records,
        known=_known_damage(workdir),
        memory=ScanMemory(workdir.scan(strategy_lib.worker(strategy))),
    )
    rows = training_data_lib.training_data(config, selections).rows
    cadence = _cadence(config, rows)
    _check_callbacks(config, dataset, cadence, validation_split)
    require_weights(selections.values(), example_weights.column(config, dataset.schema))
    statistics = warm_start.statistics_of(start, dataset)
    objective = objective_lib.build(config, dataset.schema, statistics)
    bad_steps.require_policy(config.train.on_bad_step, config.train.bad_steps_allowed)
    return Setup(
        config=config,
        dataset=dataset,
        selections=selections,
        damage=damage,
        workdir=workdir,
        strategy=strategy,
        precision=precision,
        jit_compile=jit_compile,
        deterministic=request.deterministic,
        cadence=cadence,
        objective=objective,
        validation_split=validation_split,
        final_split=final_split,
        data_service=request.data_service,
        profile_steps=request.profile_steps,
        start=start,
        statistics=statistics,
        record=describe(
            request,
            strategy,
            precision,
            jit_compile=jit_compile,
            total_steps=cadence.total_steps,
            damaged_records=len(damage),
            mixture_digests=training_data_lib.mixture_digests(config, selections),
            warm_start=start.told if start else None,
        ),
        announcement=announcement.lines(
            request,
            strategy,
            precision,
            objective=objective,
            damage=damage,
            total_steps=cadence.total_steps,
            rows=rows,
            ignored=ignored,
            is_validated=bool(validation_split),
            start=start,
            xla=f"{'on' if jit_compile else 'off'}: {jit_reason}",
        ),
    )


def _check_callbacks(config: ConfigDict, dataset: Dataset, cadence: Cadence, validation_split: str) -> None:
    lacking = monitored.why_not_validated(
        validation_split,
        epochs=cadence.epoch(cadence.total_steps - 1) + 1,
        every_epochs=config.evaluation.every_epochs,
    )
    best_checkpoint.check(config, dataset.schema.label, lacking=lacking)
    callback_checks.check(
        config.callbacks,
        logged=monitored.logged(config, dataset.schema.label, is_validated=not lacking),
        lacking=lacking,
        has_schedule=optimizer.has_schedule(config.optimizer, cadence.total_steps),
    )


def _known_damage(workdir: Workdir) -> Damage | None:
    """The records that the run in this directory leaves out; None where there is no run yet."""
    left_out = files.read_json(workdir.damaged)
    if left_out:
        return damage_budget.from_json(left_out)
    return () if workdir.run.exists() else None


def _cadence(config: ConfigDict, records: int) -> Cadence:
    for key in ("steps_per_loop", "log_every_steps", "checkpoint_every_steps"):
        _require_positive(f"train.{key}", config.train[key])
    if not config.train.steps:
        _require_positive("train.epochs", config.train.epochs)
    steps = config.train.steps or total_steps(
        epochs=config.train.epochs, records=records, global_batch=config.global_batch
    )
    ranges.check_length(steps)
    return Cadence(
        records=records,
        global_batch=config.global_batch,
        total_steps=steps,
        steps_per_loop=config.train.steps_per_loop,
        log_every_steps=config.train.log_every_steps,
        checkpoint_every_steps=config.train.checkpoint_every_steps,
    )


def _require_whole_parts(config: ConfigDict, strategy: tf.distribute.Strategy) -> None:
    parts, batch = config.train.micro_batches, config.global_batch // strategy.num_replicas_in_sync
    if parts < 1 or batch % parts:
        raise InputError(
            "--config.train.micro_batches",
            received=parts,
            expected=f"a number that divides the {batch:,} examples of a replica",
            action="Correct it in the config file or on the command line, or change --config.global_batch.",
        )


def _require_positive(key: str, value: float) -> None:
    if not 0 < value < math.inf:  # NaN neither
        raise InputError(
            f"--config.{key}",
            received=value,
            expected="a positive number",
            action="Correct it in the config file or on the command line.",
        )
