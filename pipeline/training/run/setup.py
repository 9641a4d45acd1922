"""Decides about a run before its model is built, and announces it."""

import dataclasses
from collections.abc import Callable, Mapping

import tensorflow as tf

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
from pipeline.data.schema.schema import Schema
from pipeline.data.statistics import loading
from pipeline.training.engine import cluster
from pipeline.training.engine import precision as precision_lib
from pipeline.training.engine import strategy as strategy_lib
from pipeline.training.engine.precision import Precision
from pipeline.training.experiment import (
    checks,
    evaluation_splits,
    example_weights,
    first_weights,
    losses,
    metrics,
    model_code,
    optimizer,
    own_classes,
)
from pipeline.training.experiment import config as config_lib
from pipeline.training.experiment import data as data_lib
from pipeline.training.experiment import objective as objective_lib
from pipeline.training.experiment.code import Code
from pipeline.training.experiment.config import Experiment
from pipeline.training.experiment.first_weights import Source
from pipeline.training.loop import callback_checks
from pipeline.training.loop.clock import Cadence, total_steps
from pipeline.training.observers import registry
from pipeline.training.observers.observer import Observer
from pipeline.training.run.request import Request, describe
from pipeline.training.run.weights import require_weights
from pipeline.training.state import checkpoints, run_record
from pipeline.training.state import start as start_lib
from pipeline.training.state import workdir as files
from pipeline.training.state.run_record import RunRecord
from pipeline.training.state.start import Start
from pipeline.training.state.workdir import Workdir
from pipeline.training.tasks.metrics import Accumulator
from pipeline.training.tasks.objective import Objective

_Say = Callable[[str], None]  # receives a line that announces a decision


@dataclasses.dataclass(frozen=True, kw_only=True)
class Setup:
    """A request, resolved on this machine."""

    request: Request
    selections: Mapping[str, Selection]  # selections that are read, by split expression
    damage: Damage  # records that the selections leave out
    workdir: Workdir
    strategy: tf.distribute.Strategy
    precision: Precision
    jit_compile: bool
    model_code: Code
    loss_code: Code | None  # code of the loss, if the config names it
    optimizer_codes: tuple[Code, ...]  # code of the optimizer and of its schedule, if the config names it
    cadence: Cadence
    objective: Objective
    metrics: Mapping[str, Callable[[], Accumulator]]  # metrics that the config names, besides the task's
    validation_split: str  # empty: the dataset has no such split
    final_split: str
    start: Start | None  # the run that gives all first weights; None: no run does
    # Source that gives first weights by name; None: there is none, or the run has its own copy.
    source: Source | None
    statistics: SplitStatistics  # statistics of the training data, or of the run that gave the first weights
    observers: Mapping[str, Observer]  # observers by name; only the chief reports to them
    record: RunRecord
    announcement: tuple[str, ...]  # lines of the announcement

    @property
    def experiment(self) -> Experiment:
        return self.request.experiment

    @property
    def dataset(self) -> Dataset:
        return self.request.dataset

    @property
    def selection(self) -> Selection:
        """The part of --dataset to train on."""
        return self.selections[self.experiment.data.split]

    @property
    def training_data(self) -> TrainingData:
        """All data to train on."""
        return data_lib.training_data(self.experiment.data, self.selections)


def decide(request: Request) -> Setup:
    """Resolves a request, one decision after another; raises InputError if something in it is wrong.

    Call it before anything else touches TensorFlow's devices.
    """
    workdir = Workdir(flags.absolute(request.workdir))
    before = run_record.read(workdir.run)
    if before:
        place = request.experiment.model.place
        place = dataclasses.replace(place, recorded=before.code, workdir=workdir.path)
        request = dataclasses.replace(request, experiment=request.experiment.at(place))
    experiment, dataset, schema = request.experiment, request.dataset, request.dataset.schema
    found, code = model_code.locate(experiment.model), model_code.records(experiment)
    lines: list[str] = []
    say = lines.append
    _announce_dataset(dataset, experiment.data, say)
    lines += request.defaults
    start = _start(request, workdir, before, say)
    source, init = _source(request, workdir, before, say) if start is None else (None, {})
    statistics = _statistics(start, dataset)
    strategy = _strategy(request, say)
    precision = _precision(request.precision, strategy, say)
    jit_compile, reason = strategy_lib.jit_compile(experiment.train.jit_compile, strategy)
    say(f"XLA        {'on' if jit_compile else 'off'}: {reason}")
    objective = objective_lib.build(experiment, schema, statistics)
    lines += objective_lib.announced(experiment, objective, schema.label)
    lines += optimizer.announced(experiment.optimizer)
    validation_split, final_split = _evaluation(experiment.evaluation, dataset, say)
    used = {experiment.data.split, validation_split, final_split} - {""}
    selections, damage = _selections(request, used, workdir, strategy_lib.worker(strategy), say)
    cadence = _cadence(experiment, selections, say)
    _check_callbacks(experiment, schema, cadence, validation_split)
    callbacks = own_classes.of_callbacks(
        experiment.callbacks, before.callbacks if before else (), place=experiment.beside_config
    )
    lines += [f"callback   {each}" for each in callbacks]
    observers = registry.build(experiment.observers, place=experiment.beside_config)
    lines += [f"observers  {', '.join(observers)}"] if observers else []
    return Setup(
        request=request,
        selections=selections,
        damage=damage,
        workdir=workdir,
        strategy=strategy,
        precision=precision,
        jit_compile=jit_compile,
        model_code=found,
        loss_code=losses.code_of(experiment.own_loss),
        optimizer_codes=optimizer.codes_of(experiment.optimizer),
        cadence=cadence,
        objective=objective,
        metrics=metrics.build(experiment.evaluation.metrics, schema.label, place=experiment.evaluation.place),
        validation_split=validation_split,
        final_split=final_split,
        start=start,
        source=source,
        statistics=statistics,
        observers=observers,
        record=describe(
            request,
            strategy,
            precision,
            jit_compile=jit_compile,
            total_steps=cadence.total_steps,
            damaged_records=len(damage),
            code=code,
            mixture_digests=data_lib.mixture_digests(experiment.data, selections),
            warm_start=start.recorded if start else None,
            init=init,
            callbacks=callbacks,
        ),
        announcement=tuple(lines),
    )


def _announce_dataset(dataset: Dataset, data: config_lib.Data, say: _Say) -> None:
    filled = evaluation_splits.filled_splits(dataset).items()
    say(f"dataset    {dataset}: {', '.join(f'{split} {rows:,}' for split, rows in filled)}")
    for each in data.mixture:
        say(f"mixed with {each.name}, weight {each.weight:g} to {data.weight:g}")


def _start(request: Request, workdir: Workdir, before: RunRecord | None, say: _Say) -> Start | None:
    """Decides with which weights a run begins; None: the seed makes them.

    The run at --warm_start gives the weights of its best checkpoint if it keeps one, else of its last, as for
    an export. A run that continues needs only its own copy.

    Args:
      before: content of run.json in `workdir`; None if the run begins.
    """
    if request.warm_start is None:
        return None
    start = start_lib.own_copy(workdir, before) if before else None
    if start is None or start.recorded["workdir"] != str(flags.absolute(request.warm_start)):
        start = first_weights.start_of_run(request.warm_start, flag=start_lib.FLAG)
    start_lib.require_fitting(start, request.experiment.given, request.dataset.schema)
    say(f"begins     with {start}; preprocessing is that run's, too")
    if request.experiment.model.init:
        say(f"ignored    {first_weights.FLAG}: {start_lib.FLAG} gives all weights")
    return start


def _source(
    request: Request, workdir: Workdir, before: RunRecord | None, say: _Say
) -> tuple[Source | None, Mapping[str, object]]:
    """Decides which source gives first weights by name; returns it, and what run.json says about it.

    A run that continues no longer needs the source, because it has its own copy, or checkpoints.
    """
    init = request.experiment.model.init
    if not init:
        return None, {}
    is_there = workdir.first_weights.exists() or checkpoints.newest_first(workdir.checkpoints)
    if before and before.init.get("source") == str(flags.absolute(init)) and is_there:
        say(f"begun      with weights of {before.init['source']}, SHA-256 {str(before.init['digest'])[:12]}")
        return None, before.init
    source = first_weights.source_of(init)
    _warn(source.warning(request.dataset.schema), say)
    return source, source.recorded


def _statistics(start: Start | None, dataset: Dataset) -> SplitStatistics:
    """Returns the statistics from which preprocessing is built: those of the run that gives the weights, or
    the dataset's.
    """
    if start is None:
        return loading.of_training(dataset)
    return statistics_lib.read(start.source.statistics)[TRAIN]


def _strategy(request: Request, say: _Say) -> tf.distribute.Strategy:
    strategy = strategy_lib.create(request.strategy, logical_devices=request.logical_devices)
    batch, replicas = request.experiment.data.global_batch, strategy.num_replicas_in_sync
    strategy_lib.require_divisible("global_batch", batch, strategy)
    _require_whole_parts(request.experiment.train.micro_batches, batch // replicas)
    name = strategy_lib.name_of(strategy)
    say(
        f"strategy   {name}, replicas: {replicas}, "
        f"global batch {batch:,}, of which a replica has {batch // replicas:,}"
    )
    if name == "multi_worker" and (ignored := cluster.ignored()):
        say(f"ignored    {ignored}")
    if request.learning_rate:
        optimizer = request.experiment.optimizer
        decays = optimizer.name in config_lib.OWN_OPTIMIZERS and optimizer.name != "adam"
        decay = f", weight decay {optimizer.weight_decay:g}" if decays else ""
        say(f"rate       {request.learning_rate}; {optimizer.name}{decay}")
    if request.deterministic:
        strategy_lib.enable_determinism(strategy)
        say("bits       the same command gives the same weights, as --deterministic asks")
    return strategy


def _require_whole_parts(parts: int, batch: int) -> None:
    if parts < 1 or batch % parts:
        raise InputError(
            "--config.train.micro_batches",
            received=parts,
            expected=f"a number that divides the {batch:,} examples of a replica",
            action="Correct it in the config file or on the command line, or change --config.global_batch.",
        )


def _precision(name: str, strategy: tf.distribute.Strategy, say: _Say) -> Precision:
    precision = precision_lib.choose(name, precision_lib.detect(strategy))
    say(f"precision  {precision.policy}: {precision.reason}")
    _warn(precision.warning, say)
    return precision


def _warn(text: str, say: _Say) -> None:
    if text:
        say(f"warning    {text}")


def _evaluation(evaluation: config_lib.Evaluation, dataset: Dataset, say: _Say) -> tuple[str, str]:
    """Decides which split is evaluated after epochs (empty: none), and which one at the end."""
    validation_split = evaluation_splits.validation_split(evaluation, dataset)
    final_split = evaluation_splits.final_split(evaluation, dataset)
    if not validation_split:
        say("validation none: the dataset has no such split")
    return validation_split, final_split


def _selections(
    request: Request, used: set[str], workdir: Workdir, worker: int, say: _Say
) -> tuple[Mapping[str, Selection], Damage]:
    """Decides which data are read, without the damaged records that may be left out; also returns these
    records.

    Args:
      used: split expressions of --dataset.
    """
    dataset, data = request.dataset, request.experiment.data
    selections, damage = damage_lib.sound_selection(
        {split: select(dataset, split) for split in sorted(used)} | data_lib.others(data),
        budget=request.max_corrupt_records,
        known=_known_damage(workdir),
        memory=ScanMemory(workdir.scan(worker)),
    )
    require_weights(selections.values(), example_weights.column(data.example_weights, dataset.schema))
    if damage:
        say(f"left out   {listed(damage)}")
    return selections, damage


def _known_damage(workdir: Workdir) -> Damage | None:
    """Returns the records that the run in this directory leaves out; None where there is no run yet."""
    before = run_record.read(workdir.run)
    if before:
        run_record.require_left_out(workdir.path, before)
    left_out = files.read_json(workdir.damaged, is_needed=True)
    if left_out:
        return damage_lib.damage_from_json(left_out)
    return () if before else None


def _cadence(experiment: Experiment, selections: Mapping[str, Selection], say: _Say) -> Cadence:
    data, train = experiment.data, experiment.train
    rows = data_lib.training_data(data, selections).rows
    steps = train.steps or total_steps(epochs=train.epochs, records=rows, global_batch=data.global_batch)
    config_lib.check_length(steps)
    cadence = Cadence(
        records=rows,
        global_batch=data.global_batch,
        total_steps=steps,
        steps_per_loop=train.steps_per_loop,
        log_every_steps=train.log_every_steps,
        checkpoint_every_steps=train.checkpoint_every_steps,
    )
    if warning := optimizer.warmup_warning(experiment.optimizer.warmup_steps, steps):
        _warn(f"{warning}; {optimizer.WARMUP_ADVICE}", say)
    _warn(data_lib.repetition(data.global_batch, rows), say)
    return cadence


def _check_callbacks(experiment: Experiment, schema: Schema, cadence: Cadence, validation_split: str) -> None:
    """Raises InputError if a callback, or the choice of the best checkpoint, cannot work in this run."""
    lacking = checks.why_not_validated(
        validation_split,
        epochs=cadence.epoch(cadence.total_steps - 1) + 1,
        every_epochs=experiment.evaluation.every_epochs,
    )
    is_weighted = bool(experiment.data.example_weights)
    more = experiment.evaluation.metrics
    logged = checks.logged_names(schema.label, is_validated=not lacking, is_weighted=is_weighted, more=more)
    checks.check_keep_best(experiment.train.keep_best, logged, lacking=lacking, more=more)
    callback_checks.check(
        experiment.callbacks,
        logged=logged,
        lacking=lacking,
        has_schedule=optimizer.has_schedule(experiment.optimizer, cadence.total_steps),
    )
