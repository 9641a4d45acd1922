"""Puts a run together from its setup (model, optimizer, input, checkpoints) and trains it to the end."""

import functools
import pathlib
import tempfile

import tensorflow as tf

from pipeline.data import loss_budget, whole_files
from pipeline.data import manifest as manifest_lib
from pipeline.data import schema as schema_lib
from pipeline.data import statistics as statistics_lib
from pipeline.data.damage import naming_damage
from pipeline.data.input import training_batches
from pipeline.data.service import naming_lost_service
from pipeline.training import callbacks, golden, optimizer
from pipeline.training import strategy as strategy_lib
from pipeline.training.build import build_model, build_preprocess
from pipeline.training.checkpoint import Checkpoints
from pipeline.training.evaluation import Evaluator, logits_of
from pipeline.training.reporter import Reporter
from pipeline.training.session import Session
from pipeline.training.setup import TRAIN_SPLIT, Setup
from pipeline.training.source import reading
from pipeline.training.step import InnerLoop, train_step


class Trainer:
    """One process's share of a run. In a cluster every process makes one; the chief writes the files."""

    def __init__(self, setup: Setup) -> None:
        self._setup = setup
        self._schema = setup.dataset.schema
        self._is_chief = strategy_lib.is_chief(setup.strategy)
        self._preprocess = build_preprocess(
            setup.config, self._schema, statistics_lib.load(setup.dataset)[TRAIN_SPLIT]
        )
        with setup.strategy.scope():
            self._model = build_model(
                setup.config, schema=self._schema, inputs=self._preprocess.inputs, precision=setup.precision
            )
            self._model.optimizer = optimizer.build(
                setup.config.optimizer,
                total_steps=setup.cadence.total_steps,
                precision=setup.precision,
            )
            self._model.optimizer.build(self._model.trainable_variables)
        self._evaluate = Evaluator(
            setup.strategy,
            self._model,
            schema=self._schema,
            selections=setup.selections,
            preprocess=self._preprocess,
            largest_batch=setup.config.evaluation.global_batch,
        )

    def train(self, before: dict | None) -> dict:
        """Trains from the latest checkpoint on; returns the metrics of the final split.

        Args:
          before: run.json as an earlier process left it; None where the run begins.
        """
        self._write_inputs()
        checkpoints = self._checkpoints()
        step, saved_state = checkpoints.restore()
        reporter = self._reporter(before, step) if self._is_chief else None
        session = Session(
            self._model,
            cadence=self._setup.cadence,
            checkpoints=checkpoints,
            callbacks=callbacks.build(self._setup.config.callbacks, workdir=self._callbacks_directory()),
            evaluate=self._validate,
            report=reporter or (lambda point: None),
            has_accuracy=self._schema.label.task != "regression",
        )
        problems = naming_lost_service(self._setup.data_service)
        with problems, naming_damage(*self._setup.selections.values()):
            step = session.run(self._inner_loop(step), step=step, saved_state=saved_state)
        metrics = self._evaluate(self._setup.final_split)
        if reporter:
            reporter.finish(step, metrics)
        return metrics

    def _write_inputs(self) -> None:
        """Writes what restoring the model needs besides a checkpoint."""
        workdir, dataset = self._setup.workdir, self._setup.dataset
        workdir.path.mkdir(parents=True, exist_ok=True)
        golden.write(workdir.golden, self._setup.selection)
        if self._is_chief:
            if self._setup.damage:
                whole_files.write_json(workdir.damaged, loss_budget.to_json(self._setup.damage))
            whole_files.write_bytes(workdir.schema, schema_lib.dumps(self._schema).encode())
            statistics = dataset.directory / manifest_lib.STATISTICS_FILE_NAME
            whole_files.write_bytes(workdir.statistics, statistics.read_bytes())

    def _checkpoints(self) -> Checkpoints:
        inputs = golden.inputs(self._setup.workdir.golden, self._schema, self._preprocess)
        return Checkpoints(
            self._setup.workdir.checkpoints,
            model=self._model,
            optimizer=self._model.optimizer,
            golden_logits=logits_of(self._setup.strategy, self._model, inputs),
            keep=self._setup.config.train.checkpoints_kept,
            is_chief=self._is_chief,
        )

    def _reporter(self, before: dict | None, step: int) -> Reporter:
        about = self._setup.record | {"parameters": self._model.count_params()}
        resumed = [f"continuing from step {step:,}"] if step else []
        print("\n".join([*self._setup.announcement, *resumed]), flush=True)
        return Reporter(self._setup.workdir, about, before=before, step=step)

    def _inner_loop(self, step: int) -> InnerLoop:
        config = self._setup.config
        batches = functools.partial(
            training_batches,
            self._setup.source,
            self._preprocess,
            **reading(config),
            position=self._setup.cadence.position(step),
            data_service=self._setup.data_service,
        )
        distributed = self._setup.strategy.distribute_datasets_from_function(
            lambda context: batches(context=context)
        )
        one_step = train_step(
            self._model,
            self._model.optimizer,
            task=self._schema.label.task,
            global_batch=config.global_batch,
            jit_compile=self._setup.jit_compile
            and not isinstance(self._setup.strategy, tf.distribute.TPUStrategy),
        )
        return InnerLoop(self._setup.strategy, one_step, iter(distributed))

    def _validate(self, epoch: int) -> dict | None:
        is_due = epoch % max(1, self._setup.config.evaluation.every_epochs) == 0
        split = self._setup.validation_split
        return self._evaluate(split) if split and is_due else None

    def _callbacks_directory(self) -> pathlib.Path:
        # Every worker runs the callbacks, so that all stop at the same step; only the chief's files count.
        return self._setup.workdir.path if self._is_chief else pathlib.Path(tempfile.mkdtemp())
