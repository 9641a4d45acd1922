"""Reads a training run back from its working directory: model, preprocessing, schema, config."""

import dataclasses
import pathlib

import keras
import tensorflow as tf

from pipeline.data.dataset import statistics as statistics_lib
from pipeline.data.dataset.manifest import TRAIN
from pipeline.data.dataset.statistics import SplitStatistics
from pipeline.data.preprocessing.preprocess import LabelScale, Preprocess, label_scale
from pipeline.data.schema import schema as schema_lib
from pipeline.data.schema.schema import Schema
from pipeline.training.engine import step
from pipeline.training.engine.checkpoint import Checkpoints
from pipeline.training.engine.evaluation import logits_of
from pipeline.training.engine.precision import Precision
from pipeline.training.engine.step import Averages
from pipeline.training.experiment import checks, example_weights, objective
from pipeline.training.experiment.config import Experiment, Place, parse
from pipeline.training.experiment.model import build_model, build_preprocess, learned_scale
from pipeline.training.experiment.model_code import without_first_weights
from pipeline.training.state import checkpoints as checkpoints_lib
from pipeline.training.state import golden, run_record
from pipeline.training.state import workdir as files
from pipeline.training.state.checkpoints import LAST, Kept, described
from pipeline.training.state.run_record import RunRecord
from pipeline.training.state.workdir import Workdir
from pipeline.training.tasks.objective import Objective


@dataclasses.dataclass(frozen=True, kw_only=True)
class KnownRun:
    """Everything from which a run's model is built."""

    preprocess: Preprocess
    schema: Schema
    statistics: SplitStatistics  # statistics from which preprocessing was built
    experiment: Experiment
    record: RunRecord
    workdir: Workdir

    @property
    def learned(self) -> LabelScale:
        """The scale by which the model learns the labels."""
        return learned_scale(self.experiment.loss, self.schema.label, self.statistics)

    def new_model(
        self, precision: Precision | None = None, *, with_first_weights: bool = False
    ) -> keras.Model:
        """Builds the model. `precision` None means the run's own.

        Args:
          with_first_weights: whether it has the weights with which training began; if a file gave them, it
            must exist.
        """
        args = self.experiment.model
        return build_model(
            args if with_first_weights else without_first_weights(args),
            schema=self.schema,
            inputs=self.preprocess.inputs,
            precision=precision or Precision(**self.record.precision),
            scale=self.learned,
        )


@dataclasses.dataclass(frozen=True, kw_only=True)
class RestoredRun(KnownRun):
    """A trained model; `schema` describes its inputs and its label."""

    model: keras.Model
    step: int
    choice: str  # a description of the checkpoint that was taken
    damaged: tuple[str, ...]  # checkpoints that would have been taken, and why they cannot be read


@dataclasses.dataclass(frozen=True, kw_only=True)
class Reading:
    """The checkpoints of a run, each of which gives its weights to one model."""

    averages: Averages | None  # averages of the model's weights, if the run keeps them
    kept: Kept
    checkpoints: Checkpoints


@dataclasses.dataclass(frozen=True, kw_only=True)
class RebuiltRun(KnownRun, Reading):
    """A model with its first weights, and the checkpoints that hold later ones; `schema` is the dataset's."""

    model: keras.Model
    objective: Objective


def rebuild_model(workdir: pathlib.Path) -> RebuiltRun:
    """Rebuilds the model as it was before the first step. Raises InputError where there is no run."""
    run = files.existing(workdir)
    record = run_record.read(run.run)
    run_record.check_files(run.path, record)
    experiment = parse(record.config).at(Place(recorded=record.code, workdir=run.path))
    schema = schema_lib.load(run.schema)
    statistics = statistics_lib.read(run.statistics)[TRAIN]
    known = KnownRun(
        preprocess=build_preprocess(experiment.data, schema, statistics),
        schema=schema,
        statistics=statistics,
        experiment=experiment,
        record=record,
        workdir=run,
    )
    model = known.new_model()
    return RebuiltRun(
        **vars(known),
        **vars(reading(run, record, model=model, preprocess=known.preprocess)),
        model=model,
        objective=objective.build(experiment, schema, statistics),
    )


def reading(
    run: Workdir,
    record: RunRecord,
    *,
    model: keras.Model,
    preprocess: Preprocess,
    strategy: tf.distribute.Strategy | None = None,
) -> Reading:
    """The checkpoints of `run`, for a model like its own; `preprocess` prepares the golden records.

    Args:
      strategy: strategy of the model; None: TensorFlow's default. Call it in the strategy's scope.
    """
    experiment, schema = parse(record.config), schema_lib.load(run.schema)
    inputs = golden.inputs(run.golden, schema, preprocess)
    kept = checks.kept_best(experiment, schema.label)
    averages = step.build_averages(experiment.optimizer.ema, model)
    checkpoints = Checkpoints(
        run.checkpoints,
        model=model,
        ema=averages.variables if averages else (),
        golden_logits=logits_of(strategy or tf.distribute.get_strategy(), model, inputs),
        scale=label_scale(schema.label, statistics_lib.read(run.statistics)[TRAIN]),
        run=checkpoints_lib.identity_of_run(record, schema=schema.fingerprint),
        kept=kept,
    )
    return Reading(averages=averages, kept=kept, checkpoints=checkpoints)


def restore_model(
    workdir: pathlib.Path, up_to: int | None = None, *, checkpoint: str = LAST, averaged: bool = True
) -> RestoredRun:
    """Rebuilds the model as it was trained and restores a checkpoint, by default the newest sound one.

    Args:
      up_to: the most steps that the checkpoint may have; None: any.
      checkpoint: `last`, `best` or a step; empty: the best where the run keeps one, else the last.
      averaged: whether to take the averages of the weights, if the run keeps them, instead of the trained
        weights.

    Raises:
      InputError: there is no run, or no such checkpoint, or all are damaged, or the model's predictions of
        the golden records differ from the saved ones.
    """
    rebuilt = rebuild_model(workdir)
    run, kept, checkpoints = rebuilt.workdir, rebuilt.kept, rebuilt.checkpoints
    choice = checkpoint or kept.usual(run.checkpoints)
    step, _ = checkpoints.restore(choice=choice, up_to=up_to)
    if not step:
        of_steps = "" if up_to is None else f" of at most {up_to:,} steps"
        raise files.no_run(run.path, f"a run without a checkpoint{of_steps}")
    if rebuilt.averages and averaged:
        rebuilt.averages.take_place()
    known = {field.name: getattr(rebuilt, field.name) for field in dataclasses.fields(KnownRun)}
    fed = example_weights.fed(rebuilt.experiment.data.example_weights, rebuilt.schema)
    return RestoredRun(
        **known | {"schema": fed},
        model=rebuilt.model,
        step=step,
        choice=described(step, choice, kept=kept),
        damaged=checkpoints.damaged,
    )
