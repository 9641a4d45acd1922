"""A training run, from request to final metrics. Repeating a request continues what was interrupted."""

import contextlib
import dataclasses
import functools
import shlex
import time
from collections.abc import Callable, Sequence

import keras
import tensorflow as tf
from tqdm import tqdm

from pipeline.base import files
from pipeline.base.cli.signals import Deferred
from pipeline.data.input.service import naming_lost_service, naming_other_dataset
from pipeline.data.integrity import damage
from pipeline.data.integrity.changes import Watched
from pipeline.data.integrity.damage import naming_damage
from pipeline.data.schema import schema as schema_lib
from pipeline.data.schema.schema import Schema
from pipeline.data.statistics import loading
from pipeline.report import terminal
from pipeline.training.baselines import baselines
from pipeline.training.baselines.baselines import Predictions
from pipeline.training.engine import cluster, strategy, trace
from pipeline.training.engine.checkpoint import Checkpoints
from pipeline.training.engine.evaluation import ignored
from pipeline.training.engine.replicas import unsaved_draws
from pipeline.training.experiment import checks, example_weights, own_classes
from pipeline.training.experiment.model import naming_layer
from pipeline.training.loop import callbacks, outer
from pipeline.training.loop.bad_steps import Event, Guard
from pipeline.training.loop.clock import timed
from pipeline.training.loop.outer import Point, Session, TimedCheckpoints
from pipeline.training.observers.delivery import Observers
from pipeline.training.report import baselines as baselines_report
from pipeline.training.report import worst
from pipeline.training.report.reporter import FILE_NAME, Reporter, write_report
from pipeline.training.report.run import time_line
from pipeline.training.run import parts
from pipeline.training.run.attribution import attribution_of
from pipeline.training.run.parts import Measures, Run
from pipeline.training.run.request import Request
from pipeline.training.run.setup import Setup, decide
from pipeline.training.state import checkpoints as checkpoints_lib
from pipeline.training.state import continuation, golden, goodput, run_record
from pipeline.training.state import start as start_lib
from pipeline.training.state import workdir as workdir_lib
from pipeline.training.state.goodput import GoodputLog
from pipeline.training.state.run_record import RunRecord
from pipeline.training.tasks.registry import task_of


def train(request: Request, *, began: float | None = None) -> dict:
    """Trains, evaluates and reports; returns the metrics of the final split.

    An interrupted run continues from its last checkpoint; a finished run is only reported.

    Args:
      began: the time at which this process began, in seconds of `time.monotonic`; None: now. The goodput log
        starts then.

    Raises:
      InputError: something in the request, the dataset or the working directory is wrong.
      LostWorkerError: another worker of the cluster ended or hangs.
    """
    began = time.monotonic() if began is None else began
    with cluster.name_lost_worker():
        setup = decide(request)
        workdir = setup.workdir
        if strategy.worker(setup.strategy):
            return _go_on(setup, began)
        workdir.path.mkdir(parents=True, exist_ok=True)
        with files.hold_directory(workdir.path, thing=f"--workdir={workdir.path}"):
            return _go_on(setup, began)


def _go_on(setup: Setup, began: float) -> dict:
    workdir = setup.workdir
    before = run_record.read(workdir.run)
    if before:
        continuation.require_same(before, setup.record)
        run_record.check_files(workdir.path, before)
        if _is_done(setup, before):
            print(f"This run is finished, at step {before.steps:,}; nothing is left to train.", flush=True)
            workdir_lib.read_history(workdir.history)
            goodput.read_goodput(workdir.goodput_log)
            # Only the chief: several at once would break each other's files.
            if not strategy.worker(setup.strategy):
                write_report(workdir.path)
            return workdir_lib.read_json(workdir.evaluation)
    path = None if strategy.worker(setup.strategy) else workdir.goodput_log
    with GoodputLog(path, age_s=time.monotonic() - began) as goodput_log:
        run = parts.build(setup)
        observers = Observers(setup.observers if run.is_chief else {}, workdir, tell=_tell)
        with observers.told_of_failure():
            metrics = _train(run, before, goodput_log, observers)
    if path:
        print(terminal.broken(time_line(goodput.read_goodput(path))), flush=True)
    return metrics


def _is_done(setup: Setup, before: RunRecord) -> bool:
    """Returns whether nothing is left to do: everything that an export needs exists and is whole."""
    workdir = setup.workdir
    return (
        before.finished
        and before.total_steps == setup.record.total_steps
        and all((workdir.path / name).exists() for name in before.files)
        and checkpoints_lib.is_sound(workdir.checkpoints, before.steps)
    )


def _tell(line: str) -> None:
    tqdm.write(terminal.broken(line))  # printed above the progress bar, if there is one


def _train(run: Run, before: RunRecord | None, goodput_log: GoodputLog, observers: Observers) -> dict:
    """Trains from the latest checkpoint on; returns the metrics of the final split.

    Args:
      before: what an earlier process left in run.json; None if the run begins.
    """
    _write_inputs(run)
    run = parts.take_first_weights(run)
    watched = Watched(run.setup.selections.values())
    # A checkpoint that is being written when something ends the run is completed.
    with contextlib.closing(parts.checkpoints_of(run)) as checkpoints:
        measures = parts.measures_of(run)
        reporter, step = _steps(
            run, before, checkpoints, goodput_log, measures, observers, check_input=watched.check
        )
        evaluated = _take_best(run, checkpoints, step)
    is_kept = run.is_chief and (_has_baselines(run) or _has_worst(run))
    predictions = Predictions() if is_kept else None
    with run.averaged():
        evaluate = timed(goodput_log, "evaluation", run.evaluate)
        metrics = evaluate(run.setup.final_split, seen=predictions or ignored) | {"step": evaluated}
    watched.check()
    strategy.leave_together(run.setup.strategy)
    if reporter:
        timed(goodput_log, "report", _write_baselines)(run, predictions)
        timed(goodput_log, "report", _write_worst)(run, predictions)
        print(terminal.broken(f"{checkpoints.cost}\n{measures.line()}"), flush=True)
        if evaluated != step:
            kept = checks.kept_best(run.setup.experiment, run.setup.dataset.schema.label)
            best = checkpoints_lib.described(evaluated, checkpoints_lib.BEST, kept=kept)
            print(f"evaluated  {best}", flush=True)
        goodput_log.write()  # the page shows it
        timed(goodput_log, "report", reporter.finish)(step, metrics)
        timed(goodput_log, "report", observers.finished)(step, metrics, run.setup.workdir.path / FILE_NAME)
    return metrics


def _take_best(run: Run, checkpoints: Checkpoints, step: int) -> int:
    """Gives the model the best weights, where the run keeps them, as an export does; returns their step."""
    kept = checks.kept_best(run.setup.experiment, run.setup.dataset.schema.label)
    entries = checkpoints_lib.newest_first(run.setup.workdir.checkpoints)
    best = strategy.same_step(
        run.setup.strategy, next((each.step for each in kept.best_first(entries)), step)
    )
    return step if best == step else checkpoints.restore(choice=checkpoints_lib.BEST)[0]


def _steps(
    run: Run,
    before: RunRecord | None,
    checkpoints: Checkpoints,
    goodput_log: GoodputLog,
    measures: Measures,
    observers: Observers,
    *,
    check_input: Callable[[], None],
) -> tuple[Reporter | None, int]:
    """Runs the steps that are left; returns the chief's reporter, and the last step."""
    setup = run.setup
    signals = Deferred()
    made = callbacks.build(
        checks.callbacks_of(setup.experiment, setup.dataset.schema.label),
        workdir=setup.workdir.path if run.is_chief else None,
        make_own=functools.partial(own_classes.make_callback, place=setup.experiment.beside_config),
        logged=checks.logged_names(
            setup.dataset.schema.label,
            is_validated=bool(setup.validation_split),
            is_weighted=bool(setup.experiment.data.example_weights),
            more=setup.experiment.evaluation.metrics,
        ),
    )
    session = Session(
        run.model,
        cadence=setup.cadence,
        checkpoints=TimedCheckpoints(checkpoints, goodput_log),
        callbacks=made,
        evaluate=timed(goodput_log, "evaluation", lambda epoch: _validate(run, epoch, session.hooks)),
        has_accuracy=task_of(setup.dataset.schema.label).has_accuracy,
        averaged=run.averaged,
        asked_to_stop=strategy.largest(setup.strategy, signals.came),
        any_stops=_any_stops(run),
        guard=_guard(run, lambda event, line: reporter.bad_step(event, line)),
        check_input=check_input,
        random=run.generator.state,
    )
    step = strategy.same_step(setup.strategy, session.restore())
    goodput_log.began_at(step)
    continuation.require_enough_steps(step, setup.cadence.total_steps)
    damaged = checkpoints.damaged
    reporter = (
        _reporter(run, before, step, logged=session.logged, damaged=damaged, bad_steps=session.bad_steps)
        if run.is_chief
        else None
    )
    if reporter:
        observers.started(reporter.record, workdir_lib.read_history(setup.workdir.history))
    report = (
        (lambda point: _report(measures.of(point), reporter, observers)) if reporter else (lambda _: None)
    )
    show = reporter.first_step if reporter else (lambda tracing, first: None)
    with (
        naming_lost_service(setup.request.data_service),
        naming_damage(*setup.selections.values()),
        naming_other_dataset(),
        contextlib.ExitStack() as named,
    ):
        for each in (*setup.optimizer_codes, setup.loss_code, setup.model_code):
            named.enter_context(naming_layer(each))
        inner_loop = outer.announce_first_step(
            lambda: parts.inner_loop_of(
                run,
                functools.partial(parts.host_batches, run, step),
                on_steps=measures.steps.add,
                traced=functools.partial(_warn_of_draws, reporter),
            ),
            show,
            times=goodput_log,
        )
        if reporter and setup.request.profile_steps:
            inner_loop = trace.Traced(
                inner_loop,
                setup.request.profile_steps,
                begun=step,
                folder=setup.workdir.trace,
                times=goodput_log,
                tell=reporter.tell,
            )
        with signals:
            last = session.run(inner_loop, report=timed(goodput_log, "report", report))
        if reporter and (why := callbacks.why_stopped(made)):
            reporter.tell(f"{why}{', which is kept' if setup.experiment.train.keep_best else ''}")
        return reporter, last


def _warn_of_draws(reporter: Reporter | None, graph: tf.Graph) -> None:
    """Says which operations draw random numbers that a run cannot draw again after a kill."""
    if reporter and (found := unsaved_draws(graph)):
        reporter.tell(
            f"warning    {found[0]} draws random numbers in each step, by tf.random: no checkpoint holds its "
            "state, so a killed run goes on with others. Take keras.random instead"
        )


def _report(point: Point, reporter: Reporter, observers: Observers) -> None:
    reporter(point)
    observers.logged(point)


def _any_stops(run: Run) -> Callable[[], int] | None:
    """Returns a function that tells all processes whether the chief's own callbacks ask to stop; None if it
    has none.
    """
    setup = run.setup
    if not setup.record.callbacks:
        return None
    return strategy.largest(setup.strategy, lambda: int(bool(run.model.stop_training)))


def _has_baselines(run: Run) -> bool:
    setup = run.setup
    return setup.request.baseline and baselines.is_for(_fed(setup), setup.selections[setup.final_split])


def _fed(setup: Setup) -> Schema:
    return example_weights.fed(setup.experiment.data.example_weights, setup.dataset.schema)


def _write_baselines(run: Run, predictions: Predictions | None) -> None:
    """Fits the baselines, anew where a run goes on, writes what they are worth, and says it."""
    setup = run.setup
    setup.workdir.baselines.unlink(missing_ok=True)  # they belong to fewer steps
    if predictions is None or not _has_baselines(run):
        return
    subject = baselines.Subject(
        inputs=_fed(setup),
        training=setup.selection,
        final=setup.selections[setup.final_split],
        statistics=setup.statistics,
        weights=example_weights.column(setup.experiment.data.example_weights, setup.dataset.schema),
        is_mixture=bool(setup.experiment.data.mixture),
        seed=setup.experiment.data.seed,
    )
    found = baselines.made(subject, predictions, hosts=run.evaluate.hosts)
    files.write_json(setup.workdir.baselines, found)
    print(terminal.broken("\n".join(baselines_report.lines(found))), flush=True)


def _has_worst(run: Run) -> bool:
    return worst.is_for(run.setup.dataset.schema, run.setup.selections[run.setup.final_split])


def _write_worst(run: Run, predictions: Predictions | None) -> None:
    """Writes the pictures with the largest losses, anew where a run goes on."""
    setup = run.setup
    setup.workdir.worst.unlink(missing_ok=True)
    if predictions is None or not _has_worst(run):
        return
    labels, predicted = predictions.in_stored_order(hosts=run.evaluate.hosts)
    final = setup.selections[setup.final_split]
    files.write_json(setup.workdir.worst, {"pictures": worst.worst_pictures(final, labels, predicted)})


def _write_inputs(run: Run) -> None:
    """Writes the files that restoring the model needs besides a checkpoint."""
    setup = run.setup
    workdir, dataset = setup.workdir, setup.dataset
    # For a worker that is not the chief, on a disk of its own.
    workdir.path.mkdir(parents=True, exist_ok=True)
    golden.write(workdir.golden, setup.selection)
    if (file := setup.model_code.keras_file) and file != workdir.keras_file:
        files.write_bytes(workdir.keras_file, file.read_bytes())
    if run.is_chief:
        if setup.damage:
            files.write_json(workdir.damaged, damage.damage_to_json(setup.damage))
        files.write_bytes(workdir.schema, schema_lib.dumps(dataset.schema).encode())
        _write_statistics(setup)


def _write_statistics(setup: Setup) -> None:
    workdir, measured = setup.workdir, loading.content(setup.dataset)
    if setup.start:
        start_lib.keep(setup.start, workdir)
        files.write_bytes(workdir.dataset_statistics, measured)
        measured = workdir.start.statistics.read_bytes()
    files.write_bytes(workdir.statistics, measured)


def _reporter(
    run: Run,
    before: RunRecord | None,
    step: int,
    *,
    logged: int,
    damaged: Sequence[str],
    bad_steps: Sequence[Event],
) -> Reporter:
    workdir = run.setup.workdir
    record = dataclasses.replace(
        run.setup.record,
        parameters=run.model.count_params(),
        files=run_record.digests(workdir.path),
        bad_steps=tuple(bad_steps),
    )
    warned = [f"warning    a checkpoint is damaged, so an older one is taken: {each}" for each in damaged]
    begins_anew = "no checkpoint is there, so training begins anew"
    resumed = [f"continuing from step {step:,}" if step else begins_anew] if step or before else []
    reporter = Reporter(workdir, record, before=before, step=step, logged=logged)
    told = [*run.setup.announcement, *run.model_notes, *parts.lines(run), *warned, *resumed]
    print(terminal.broken("\n".join(told)), flush=True)
    return reporter


def _guard(run: Run, tell: Callable[[Event, str], None]) -> Guard:
    """Returns the chief's guard; guards of other workers do the same, but report nothing."""
    train, workdir = run.setup.experiment.train, shlex.quote(str(run.setup.workdir.path))
    says = {"attribution": attribution_of(run), "tell": tell, "workdir": workdir} if run.is_chief else {}
    return Guard(policy=train.on_bad_step, allowed=train.bad_steps_allowed, **says)


def _validate(run: Run, epoch: int, hooks: keras.callbacks.CallbackList) -> dict | None:
    """Validation metrics; None if they are not due after `epoch`, counted from 1, or if there is no such
    split.
    """
    is_due = epoch % run.setup.experiment.evaluation.every_epochs == 0
    split = run.setup.validation_split
    return run.evaluate(split, hooks) if split and is_due else None
