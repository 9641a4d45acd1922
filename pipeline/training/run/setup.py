"""What is decided about a run before its model is built, and what the user is told of it."""

import dataclasses
import math
import pathlib
from collections.abc import Iterator, Mapping

import tensorflow as tf
from ml_collections import ConfigDict

from pipeline.base.cli import flags
from pipeline.base.errors import InputError
from pipeline.data.dataset import statistics as statistics_lib
from pipeline.data.dataset.manifest import TRAIN, Dataset
from pipeline.data.dataset.selection import Selection, select
from pipeline.data.dataset.statistics import SplitStatistics
from pipeline.data.integrity import damage as damage_lib
from pipeline.data.integrity.damage import Damage, listed
from pipeline.data.integrity.scan import ScanMemory
from pipeline.data.reading.plan import TrainingData
from pipeline.data.schema import schema as schema_lib
from pipeline.data.statistics import loading
from pipeline.training.engine import cluster
from pipeline.training.engine import precision as precision_lib
from pipeline.training.engine import strategy as strategy_lib
from pipeline.training.engine.precision import Precision
from pipeline.training.engine.trace import Steps
from pipeline.training.experiment import checks, data, evaluation_splits, example_weights, optimizer
from pipeline.training.experiment import objective as objective_lib
from pipeline.training.loop import bad_steps, callback_checks
from pipeline.training.loop.clock import Cadence, total_steps
from pipeline.training.run.request import Request, describe, plain
from pipeline.training.run.weights import require_weights
from pipeline.training.state import checkpoints, run_record
from pipeline.training.state import start as start_lib
from pipeline.training.state import workdir as files
from pipeline.training.state.run_record import RunRecord
from pipeline.training.state.start import Start
from pipeline.training.state.workdir import Workdir
from pipeline.training.tasks.objective import Objective


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
        return data.training_data(self.config, self.selections)


def decide(request: Request) -> Setup:
    """Resolves a request; raises InputError where something in it is wrong.

    Call it before anything else touches TensorFlow's devices.
    """
    workdir = Workdir(flags.absolute(request.workdir))
    before = run_record.read(workdir.run)
    config, dataset = request.config, request.dataset
    checks.check_ranges(config)
    start = resolve_start(request.warm_start, workdir=workdir, before=before, config=config, dataset=dataset)
    strategy = strategy_lib.create(request.strategy, logical_devices=request.logical_devices)
    if request.deterministic:
        strategy_lib.enable_determinism(strategy)
    strategy_lib.require_divisible("global_batch", config.global_batch, strategy)
    _require_whole_parts(config, strategy)
    _require_positive("evaluation.global_batch", config.evaluation.global_batch)
    ignored = cluster.ignored() if strategy_lib.name_of(strategy) == "multi_worker" else ""
    precision = precision_lib.choose(request.precision, precision_lib.detect(strategy))
    jit_compile, jit_reason = strategy_lib.jit_compile(config.train.jit_compile, strategy)
    validation_split = evaluation_splits.validation_split(config, dataset)
    final_split = evaluation_splits.final_split(config, dataset)
    used = {config.train.split, validation_split, final_split} - {""}
    selections, damage = damage_lib.sound_selection(
        {split: select(dataset, split) for split in sorted(used)} | data.others(config),
        budget=request.max_corrupt_records,
        known=_known_damage(workdir),
        memory=ScanMemory(workdir.scan(strategy_lib.worker(strategy))),
    )
    rows = data.training_data(config, selections).rows
    cadence = _cadence(config, rows)
    _check_callbacks(config, dataset, cadence, validation_split)
    require_weights(selections.values(), example_weights.column(config, dataset.schema))
    statistics = statistics_of(start, dataset)
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
            mixture_digests=data.mixture_digests(config, selections),
            warm_start=start.told if start else None,
        ),
        announcement=announcement_lines(
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
    lacking = checks.why_not_validated(
        validation_split,
        epochs=cadence.epoch(cadence.total_steps - 1) + 1,
        every_epochs=config.evaluation.every_epochs,
    )
    checks.check_keep_best(config, dataset.schema.label, lacking=lacking)
    callback_checks.check(
        config.callbacks,
        logged=checks.logged_names(config, dataset.schema.label, is_validated=not lacking),
        lacking=lacking,
        has_schedule=optimizer.has_schedule(config.optimizer, cadence.total_steps),
    )


def _known_damage(workdir: Workdir) -> Damage | None:
    """The records that the run in this directory leaves out; None where there is no run yet."""
    left_out = files.read_json(workdir.damaged)
    if left_out:
        return damage_lib.damage_from_json(left_out)
    return () if workdir.run.exists() else None


def _cadence(config: ConfigDict, records: int) -> Cadence:
    for key in ("steps_per_loop", "log_every_steps", "checkpoint_every_steps"):
        _require_positive(f"train.{key}", config.train[key])
    if not config.train.steps:
        _require_positive("train.epochs", config.train.epochs)
    steps = config.train.steps or total_steps(
        epochs=config.train.epochs, records=records, global_batch=config.global_batch
    )
    checks.check_length(steps)
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


# --- What a run begins with: the weights and statistics of a finished run, if it is asked to, else its own.


def resolve_start(
    asked: pathlib.Path | None,
    *,
    workdir: Workdir,
    before: RunRecord | None,
    config: ConfigDict,
    dataset: Dataset,
) -> Start | None:
    """What a run begins with; None where it begins from scratch.

    It is the best checkpoint of the run at `asked` where that run keeps one, else the last: what an export
    takes. A run that goes on needs no more than its own copy.

    Args:
      before: what run.json in `workdir` holds; None where the run begins.

    Raises:
      InputError: there is no such run, it is not finished, has no sound checkpoint, or has other weights than
        a model of this config on this dataset.
    """
    if asked is None:
        return None
    own = start_lib.own_copy(workdir, before) if before else None
    if own is None or own.told["workdir"] != str(flags.absolute(asked)):
        own = _found(asked)
    start_lib.require_fitting(own, plain(config), dataset.schema)
    return own


def statistics_of(start: Start | None, dataset: Dataset) -> SplitStatistics:
    """What preprocessing is built from: the statistics of the run that weights are of, else the dataset's."""
    if start is None:
        return loading.of_training(dataset)
    return statistics_lib.read(start.source.statistics)[TRAIN]


def _found(asked: pathlib.Path) -> Start:
    run, record = start_lib.finished_run(asked)
    keeps = checks.kept_best(ConfigDict(record.config), schema_lib.load(run.schema).label)
    entry, *_ = checkpoints.chosen_to_keep(run.checkpoints, keeps.usual(run.checkpoints), kept=keeps)
    return start_lib.start_of(run, record, entry)


# --- What the first lines of a run say: what was decided about it, and why.


def announcement_lines(
    request: Request,
    strategy: tf.distribute.Strategy,
    precision: Precision,
    *,
    objective: Objective,
    damage: Damage,
    total_steps: int,
    rows: int,
    ignored: str,
    is_validated: bool,
    start: Start | None,
    xla: str,
) -> tuple[str, ...]:
    """Lines of a word and what is said under it.

    Args:
      rows: of an epoch.
      ignored: what of TF_CONFIG is; empty: nothing.
      xla: whether it is on, and why.
    """
    said = _decided(request, strategy, precision)
    label = request.dataset.schema.label
    told = objective_lib.announced(request.config, objective, label)
    return (
        *said,
        *([f"begins     with {start}; preprocessing is that run's, too"] if start else []),
        *told,
        *([f"ignored    {ignored}"] if ignored else []),
        *(f"warning    {each}" for each in _warnings(request, precision, total_steps, rows) if each),
        *([f"left out   {listed(damage)}"] if damage else []),
        *([] if is_validated else ["validation none: the dataset has no such split"]),
        f"XLA        {xla}",
        *(["bits       the same from the same command: asked for"] if request.deterministic else []),
    )


def _decided(request: Request, strategy: tf.distribute.Strategy, precision: Precision) -> Iterator[str]:
    config, dataset, replicas = request.config, request.dataset, strategy.num_replicas_in_sync
    yield f"dataset    {dataset}: {_sizes(dataset)}"
    for directory, split, weight in config.mixture:
        yield f"mixed with {directory}: {split}, weight {weight:g} to {config.train.weight:g}"
    yield (
        f"strategy   {strategy_lib.name_of(strategy)}, replicas: {replicas}, "
        f"global batch {config.global_batch:,}, of which a replica has {config.global_batch // replicas:,}"
    )
    if request.learning_rate:
        yield f"rate       {request.learning_rate}"
    yield f"precision  {precision.policy}: {precision.reason}"


def _warnings(request: Request, precision: Precision, total_steps: int, rows: int) -> tuple[str, ...]:
    return (
        precision.warning,
        optimizer.warmup_warning(request.config.optimizer, total_steps),
        data.repetition(request.config.global_batch, rows),
    )


def _sizes(dataset: Dataset) -> str:
    return ", ".join(f"{split} {rows:,}" for split, rows in evaluation_splits.filled_splits(dataset).items())
