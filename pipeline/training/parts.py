"""The parts of a run, put together from its setup: model, optimizer, checkpoints, batches, compiled steps."""

import contextlib
import dataclasses
from collections.abc import Callable

import keras
import numpy as np
import tensorflow as tf

from pipeline.data.input.batches import training_batches
from pipeline.data.preprocessing.label_scale import LabelScale, label_scale
from pipeline.data.preprocessing.preprocess import Preprocess
from pipeline.data.reading import host_share
from pipeline.training import best_checkpoint
from pipeline.training.engine import agreement, determinism, replicas
from pipeline.training.engine import averages as averages_lib
from pipeline.training.engine import strategy as strategy_lib
from pipeline.training.engine.averages import Averages
from pipeline.training.engine.checkpoints.checkpoint import Checkpoints
from pipeline.training.engine.evaluation import Evaluator, logits_of
from pipeline.training.engine.host_batches import timed
from pipeline.training.engine.inner import inner_loop, train_step
from pipeline.training.experiment import optimizer, training_data
from pipeline.training.experiment.model import build_model, build_preprocess, learned_scale
from pipeline.training.loop.outer import InnerLoop
from pipeline.training.setup import Setup
from pipeline.training.state import golden
from pipeline.training.state.checkpoints import identity


@dataclasses.dataclass(frozen=True, kw_only=True)
class Run:
    """One process's share of a run. In a cluster every process has one; the chief writes the files."""

    setup: Setup
    worker: int  # 0: the chief
    preprocess: Preprocess
    model: keras.Model  # with its optimizer
    averages: Averages | None  # of its weights, if the run keeps some
    scale: LabelScale
    learned: LabelScale  # by which the model learns the labels
    evaluate: Evaluator

    @property
    def is_chief(self) -> bool:
        return not self.worker

    def shown(self) -> contextlib.AbstractContextManager[None]:
        """Within it the model has the weights that are evaluated and exported."""
        return self.averages.in_place() if self.averages else contextlib.nullcontext()


def build(setup: Setup) -> Run:
    """Builds the model with its optimizer, its preprocessing and its evaluation, under the strategy."""
    schema = setup.dataset.schema
    statistics = setup.statistics
    preprocess = build_preprocess(setup.config, schema, statistics)
    replicas_in_sync = setup.strategy.num_replicas_in_sync
    training_data.check_augmentation(setup.config, preprocess.inputs, replicas=replicas_in_sync)
    learned = learned_scale(setup.config, schema.label, statistics)
    with setup.strategy.scope():
        model = build_model(
            setup.config,
            schema=schema,
            inputs=preprocess.inputs,
            precision=setup.precision,
            scale=learned,
        )
        replicas.adapt(model, replicas=replicas_in_sync)
        model.optimizer = optimizer.build(
            setup.config.optimizer,
            model.trainable_variables,
            total_steps=setup.cadence.total_steps,
            precision=setup.precision,
        )
        averages = averages_lib.build(setup.config.optimizer.ema, model)
    evaluate = Evaluator(
        setup.strategy,
        model,
        schema=schema,
        selections=setup.selections,
        preprocess=preprocess,
        largest_batch=setup.config.evaluation.global_batch,
        targets=training_data.targets(setup.config, schema),
    )
    return Run(
        setup=setup,
        worker=strategy_lib.worker(setup.strategy),
        preprocess=preprocess,
        model=model,
        averages=averages,
        scale=label_scale(schema.label, statistics),
        learned=learned,
        evaluate=evaluate,
    )


def checkpoints_of(run: Run) -> Checkpoints:
    """Where the run saves itself."""
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
        run=identity.of_run(setup.record, schema=schema.fingerprint),
        counts_on=(setup.workdir.history,),
        kept=best_checkpoint.kept(setup.config, schema.label),
        worker=run.worker,
        latest=agreement.latest_step(setup.strategy),
    )


def inner_loop_of(run: Run, step: int, *, on_steps: Callable[[np.ndarray], None]) -> InnerLoop:
    """Runs steps from `step` on; `on_steps` is told the seconds of each, float64 [steps]."""
    setup = run.setup
    batches, making = timed(
        setup.strategy,
        lambda context: host_batches(run, step, context),
        is_deterministic=setup.deterministic,
    )
    one_step = train_step(
        run.model,
        run.model.optimizer,
        task=setup.objective,
        global_batch=setup.config.global_batch,
        micro_batches=setup.config.train.micro_batches,
        averages=run.averages,
        skips=setup.config.train.on_bad_step == "skip",
        spread=run.learned.spread,
        jit_compile=setup.jit_compile and not isinstance(setup.strategy, tf.distribute.TPUStrategy),
    )
    return inner_loop(
        setup.strategy,
        one_step,
        iter(batches),
        updated=[*run.model.trainable_variables, *(run.averages.variables if run.averages else ())],
        making=making,
        timestamp=determinism.clock(setup.strategy, is_deterministic=setup.deterministic),
        on_steps=on_steps,
    )


def host_batches(run: Run, step: int, context: tf.distribute.InputContext) -> tf.data.Dataset:
    """This host's batches from `step` on: (inputs, targets) of one replica each."""
    setup = run.setup
    plan = training_data.read_plan(
        setup.config,
        setup.training_data,
        share=host_share.of_context(context, global_batch=setup.config.global_batch),
        position=setup.cadence.position(step),
    )
    return training_batches(
        plan,
        run.preprocess,
        augmentation=training_data.augmentation(setup.config),
        targets=training_data.targets(setup.config, setup.dataset.schema),
        data_service=setup.data_service,
    )
