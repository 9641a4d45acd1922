"""The parts of a run, put together from its setup: model, optimizer, checkpoints, batches, compiled steps."""

import contextlib
import dataclasses
import math
from collections.abc import Callable

import keras
import numpy as np
import tensorflow as tf

from pipeline.base import accelerators
from pipeline.base.errors import InputError
from pipeline.data.input.batches import training_batches
from pipeline.data.preprocessing.preprocess import LabelScale, Preprocess, label_scale
from pipeline.data.reading import sharding
from pipeline.data.schema.feature_types import TokenLabel
from pipeline.report.formats import three_digits
from pipeline.training.engine import measures, recomputation, sight, step, strategy
from pipeline.training.engine.batches import Make, timed
from pipeline.training.engine.checkpoint import Checkpoints
from pipeline.training.engine.evaluation import Evaluator, logits_of
from pipeline.training.engine.replicas import adapt_to_replicas, drawing_from, generator_of_run
from pipeline.training.engine.step import Averages, inner_loop, train_step
from pipeline.training.experiment import checks, first_weights, optimizer, restore
from pipeline.training.experiment import data as data_lib
from pipeline.training.experiment import tables as tables_lib
from pipeline.training.experiment.model import (
    build_preprocess,
    fitted_model,
    learned_scale,
    matching,
    naming_layer,
)
from pipeline.training.experiment.model_code import without_first_weights
from pipeline.training.loop.clock import StepTimes
from pipeline.training.loop.outer import InnerLoop
from pipeline.training.run.setup import Setup
from pipeline.training.state import checkpoints, golden, run_record
from pipeline.training.state.start import Start


@dataclasses.dataclass(frozen=True, kw_only=True)
class Run:
    """One process's share of a run. In a cluster every process has one; the chief writes the files."""

    setup: Setup
    worker: int  # number of the worker; 0: the chief
    preprocess: Preprocess
    model: keras.Model  # with its optimizer
    model_notes: tuple[str, ...]  # lines about how it was fitted to data and task
    averages: Averages | None  # averages of its weights, if the run keeps them
    scale: LabelScale
    learned: LabelScale  # the scale by which the model learns the labels
    evaluate: Evaluator
    generator: keras.random.SeedGenerator  # for random draws that no layer of the model keeps

    @property
    def is_chief(self) -> bool:
        return not self.worker

    def averaged(self) -> contextlib.AbstractContextManager[None]:
        """Within the block, the model has the weights that are evaluated and exported."""
        return self.averages.in_place() if self.averages else contextlib.nullcontext()


def build(setup: Setup) -> Run:
    """Builds the model with its optimizer, its preprocessing and its evaluation, under the strategy."""
    schema = setup.dataset.schema
    statistics = setup.statistics
    experiment = setup.experiment
    preprocess = build_preprocess(experiment.data, schema, statistics)
    replicas_in_sync = setup.strategy.num_replicas_in_sync
    data_lib.check_augmentation(experiment.data, preprocess.inputs, replicas=replicas_in_sync)
    learned = learned_scale(experiment.loss, schema.label, statistics)
    with setup.strategy.scope():
        is_begun = bool(checkpoints.newest_first(setup.workdir.checkpoints))
        fitted = fitted_model(
            without_first_weights(experiment.model) if is_begun else experiment.model,
            schema=schema,
            inputs=preprocess.inputs,
            precision=setup.precision,
            scale=learned,
        )
        model = fitted.model
        adapt_to_replicas(model, replicas=replicas_in_sync)
        tables = tables_lib.tables_of(
            model, is_compiled=setup.jit_compile, is_scaled=setup.precision.needs_loss_scaling
        )
        model.optimizer = optimizer.build(
            experiment.optimizer,
            model.trainable_variables,
            total_steps=setup.cadence.total_steps,
            precision=setup.precision,
            tables=tables,
        )
        inner = getattr(model.optimizer, "inner_optimizer", model.optimizer)
        notes = (
            *fitted.notes,
            *tables.lines(experiment.optimizer, inner),
            *optimizer.notes(experiment.optimizer, model.trainable_variables),
        )
        averages = step.build_averages(experiment.optimizer.ema, model)
        generator = generator_of_run(seed=experiment.model.seed, replicas=replicas_in_sync)
    notes += () if is_begun else _check_sight(setup, model)
    evaluate = Evaluator(
        setup.strategy,
        model,
        schema=schema,
        selections=setup.selections,
        preprocess=preprocess,
        largest_batch=experiment.evaluation.global_batch,
        targets=data_lib.targets(experiment.data, schema),
        metrics=setup.metrics,
    )
    return Run(
        setup=setup,
        worker=strategy.worker(setup.strategy),
        preprocess=preprocess,
        model=model,
        model_notes=notes,
        averages=averages,
        scale=label_scale(schema.label, statistics),
        learned=learned,
        evaluate=evaluate,
        generator=generator,
    )


_SEES_OTHERS = (
    "warning    the model sees other documents of a row: it does not mask by `segments`, as a recurrent "
    "layer cannot. It trains, but predicts a document from those before it in its row, too, which tell "
    "nothing of it. To give each document a row, convert with --packing=document."
)


def _check_sight(setup: Setup, model: keras.Model) -> tuple[str, ...]:
    """Warns of a model of the next token that sees other documents; raises InputError if it looks ahead."""
    label = setup.dataset.schema.label
    if not isinstance(label, TokenLabel):
        return ()
    with naming_layer(setup.model_code):
        found = sight.sight_of(model, label, setup.strategy)
    if found and found.is_ahead:
        raise InputError(
            setup.model_code.thing,
            received=f"a model that looks ahead: later tokens change a token's logits by {found.later:.0%}",
            expected="logits that follow from the token and those before it",
            action=f"{sight.CURE} pipeline.conform compares it.",
        )
    astray = found is not None and found.is_astray
    return (_SEES_OTHERS,) * astray


def checkpoints_of(run: Run) -> Checkpoints:
    setup = run.setup
    schema = setup.dataset.schema
    inputs = golden.inputs(setup.workdir.golden, schema, run.preprocess)
    return Checkpoints(
        setup.workdir.checkpoints,
        model=run.model,
        optimizer=run.model.optimizer,
        ema=run.averages.variables if run.averages else (),
        golden_logits=logits_of(setup.strategy, run.model, inputs),
        scale=run.scale,
        run=checkpoints.identity_of_run(setup.record, schema=schema.fingerprint),
        counts_on=(setup.workdir.history,),
        kept=checks.kept_best(setup.experiment, schema.label),
        worker=run.worker,
        latest=strategy.latest_step(setup.strategy),
    )


def inner_loop_of(
    run: Run,
    make: Make,
    *,
    on_steps: Callable[[np.ndarray], None],
    traced: Callable[[tf.Graph], None] = lambda graph: None,
) -> InnerLoop:
    """Builds the loop of steps over the batches that `make` makes for this host.

    Args:
      on_steps: receives the seconds of each step, float64 [steps].
      traced: receives the graph of the steps.
    """
    setup, experiment = run.setup, run.setup.experiment
    batches, making = timed(
        setup.strategy,
        make,
        is_deterministic=setup.request.deterministic,
    )
    one_step = train_step(
        run.model,
        run.model.optimizer,
        task=setup.objective,
        global_batch=experiment.data.global_batch,
        micro_batches=experiment.train.micro_batches,
        averages=run.averages,
        skips=experiment.train.on_bad_step == "skip",
        spread=setup.objective.unit(run.learned.spread),
        recomputing=recomputation.of(run.model, experiment.train.remat),
        jit_compile=setup.jit_compile and not isinstance(setup.strategy, tf.distribute.TPUStrategy),
    )
    return inner_loop(
        setup.strategy,
        drawing_from(run.generator, one_step),
        iter(batches),
        updated=[*run.model.trainable_variables, *(run.averages.variables if run.averages else ())],
        making=making,
        traced=traced,
        timestamp=strategy.determinism_clock(setup.strategy, is_deterministic=setup.request.deterministic),
        on_steps=on_steps,
    )


def host_batches(run: Run, step: int, context: tf.distribute.InputContext) -> tf.data.Dataset:
    """Returns this host's batches from `step` on: each element is (inputs, targets) of one replica."""
    setup, data = run.setup, run.setup.experiment.data
    plan = data_lib.read_plan(
        data,
        setup.training_data,
        share=sharding.share_of_context(context, global_batch=data.global_batch),
        position=setup.cadence.position(step),
    )
    return training_batches(
        plan,
        run.preprocess,
        augmentation=data.augmentation,
        targets=data_lib.targets(data, setup.dataset.schema),
        data_service=setup.request.data_service,
    )


# --- First weights that are not the seed's: some, by name, from any source; or all, from another run.


def take_first_weights(run: Run) -> Run:
    """Gives the model its first weights; returns the run, whose record names their source.

    If the run has checkpoints of its own to continue from, nothing is done. The optimizer, the step and the
    random state stay those of a run that begins.

    Raises:
      InputError: nothing of the source fits the model; or in a warm start, something does not.
    """
    setup = run.setup
    if checkpoints.newest_first(setup.workdir.checkpoints):
        return run
    if setup.source:
        match = first_weights.load(run.model, setup.source, without=setup.experiment.model.init_without)
        if run.is_chief:
            first_weights.keep(run.model, setup.workdir)
        record = dataclasses.replace(setup.record, init={**setup.record.init, **match.recorded})
        lines = (*setup.announcement, *match.lines(setup.source))
        run = dataclasses.replace(run, setup=dataclasses.replace(setup, record=record, announcement=lines))
    elif setup.record.init:
        run.model.set_weights(first_weights.kept(setup.workdir))
    elif setup.start:
        _warm_start(run, setup.start)
    if run.averages:
        run.averages.restart()
    return run


def lines(run: Run) -> list[str]:
    """Lines about changes to images, and about variables that are not trained like the others."""
    model, patterns = run.model, run.setup.experiment.model.frozen
    frozen = matching(patterns, model.weights, key="train.frozen")
    numbers, total = (sum(math.prod(each.shape) for each in some) for some in (frozen, model.weights))
    rates = [f"{pattern} × {factor:g}" for pattern, factor in run.setup.experiment.optimizer.rates]
    changes = run.setup.experiment.data.augmentation.changed
    augments = ", ".join(f"{name} {value}" for name, value in changes.items())
    return [
        *([f"augments   {augments}"] if changes else []),
        *([f"frozen     {numbers:,} of {total:,} numbers: {', '.join(patterns)}"] if frozen else []),
        *([f"rates      {', '.join(rates)}"] if rates else []),
    ]


def _warm_start(run: Run, start: Start) -> None:
    """Gives the model the weights of another run; the averages, if that run keeps them.

    The same model also needs the same preprocessing. So this model must give the golden records of the other
    run the same answers.

    Raises:
      InputError: the weights do not fit, or the model's answers to the golden records of the other run are
        not those that it recorded.
    """
    strategy = run.setup.strategy
    weights = {id(variable) for variable in run.model.weights}
    random = [each for each in run.model.variables if id(each) not in weights]
    state = [tf.convert_to_tensor(each).numpy() for each in random]
    with strategy.scope():
        read = restore.reading(
            start.source,
            run_record.read(start.source.run),
            model=run.model,
            preprocess=run.preprocess,
            strategy=strategy,
        )
    read.checkpoints.restore(choice=f"{start.step}")
    if read.averages:
        read.averages.take_place()
    for variable, value in zip(random, state, strict=True):
        variable.assign(value)


# --- Measures besides the loss: step times, operations, utilisation, memory.


def measures_of(run: Run) -> "Measures":
    """The measures of this process, before its first step."""
    group = run.setup.dataset.schema.group
    return Measures(
        run.model,
        run.setup.strategy,
        global_batch=run.setup.experiment.data.global_batch,
        rows=group.length if group else 1,
    )


class Measures:
    """Measures of one process.

    `flops_per_example` is the number of operations of a training step for one example; 0 if it could not be
    counted. An example is as many `rows` as the model computes for it.
    """

    def __init__(
        self, model: keras.Model, strategy: tf.distribute.Strategy, *, global_batch: int, rows: int = 1
    ) -> None:
        self.steps = StepTimes()
        self.flops_per_example = measures.TRAINING * rows * (measures.forward_flops(model) or 0)
        self.accelerator = measures.accelerator_of(strategy)
        self._peak = accelerators.of_device(self.accelerator)
        self._replicas = strategy.num_replicas_in_sync
        self._global_batch = global_batch

    def of(self, point: dict) -> dict:
        """A log point with the measures of its steps."""
        return {**point, **self.steps.take(), **self._use(point["examples_per_s"]), **measures.memory_peaks()}

    def line(self) -> str:
        """Formats a line such as `numbers step p50 1.3 ms, p95 2.0 ms, max 9 ms; …`"""
        times = ", ".join(
            f"{name.split('_')[1]} {three_digits(value)} ms" for name, value in self.steps.of_all().items()
        )
        steps = [f"step {times}"] if times else []
        host = measures.memory_peaks()
        device = f" and {host['device_peak_mb']:,.0f} MB of a device" if "device_peak_mb" in host else ""
        held = f"memory {host['host_peak_mb']:,.0f} MB{device} at most"
        return f"numbers    {'; '.join([*steps, self._operations(), self._utilisation(), held])}"

    def _use(self, examples_per_s: float) -> dict[str, float]:
        """Operations a second, over all replicas, and their share of the peak, where that is known."""
        if not self.flops_per_example:
            return {}
        done = self.flops_per_example * examples_per_s
        share = {"mfu": self._peak.utilisation(done, devices=self._replicas)} if self._peak else {}
        return {"gflops_per_s": done / 1e9, **share}

    def _operations(self) -> str:
        if not self.flops_per_example:
            return "FLOPs not counted"
        return f"{three_digits(self.flops_per_example / 1e6)} MFLOPs an example (3 × forward)"

    def _utilisation(self) -> str:
        if self._peak is None:
            return f"MFU unknown: no peak in the table for {self.accelerator}"
        if not self.flops_per_example or not self.steps.of_all():
            return "MFU unknown"
        examples_per_s = 1e3 * self._global_batch / self.steps.of_all()["step_p50_ms"]
        share = self._use(examples_per_s)["mfu"]
        return f"MFU {share:.1%} of {self._peak.teraflops:g} TFLOP/s a {self._peak.name}, at the median step"
