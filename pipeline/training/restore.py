"""Reads a training run back from its working directory alone: model, preprocessing, schema, config."""

import dataclasses
import pathlib

import keras
import tensorflow as tf
from ml_collections import ConfigDict

from pipeline.data import schema as schema_lib
from pipeline.data import statistics as statistics_lib
from pipeline.data.errors import InputError
from pipeline.data.preprocess import Preprocess
from pipeline.data.schema import Schema
from pipeline.training import golden
from pipeline.training import workdir as files
from pipeline.training.build import build_model, build_preprocess
from pipeline.training.checkpoint import Checkpoints
from pipeline.training.evaluation import logits_of
from pipeline.training.precision import Precision
from pipeline.training.setup import TRAIN_SPLIT
from pipeline.training.workdir import Workdir


@dataclasses.dataclass(frozen=True, kw_only=True)
class RestoredRun:
    """A trained model and what goes with it."""

    model: keras.Model
    preprocess: Preprocess
    schema: Schema
    config: ConfigDict
    step: int
    record: dict  # run.json
    workdir: Workdir


def restore_model(workdir: pathlib.Path) -> RestoredRun:
    """Rebuilds the model as it was trained and restores its latest checkpoint.

    Raises:
      InputError: there is no run or no checkpoint, or the model's predictions of the golden records are not
        those that it was saved with.
    """
    run = Workdir(pathlib.Path(workdir).absolute())
    record = files.read_json(run.run)
    if record is None:
        raise _no_run(run.path, "a directory without run.json")
    if not {"config", "precision"} <= set(record):
        raise _no_run(run.path, "a run.json that tells of no run")
    config, schema = ConfigDict(record["config"]), schema_lib.load(run.schema)
    preprocess = build_preprocess(config, schema, statistics_lib.read(run.statistics)[TRAIN_SPLIT])
    precision = Precision(**record["precision"])
    model = build_model(config, schema=schema, inputs=preprocess.inputs, precision=precision)
    inputs = golden.inputs(run.golden, schema, preprocess)
    logits = logits_of(tf.distribute.get_strategy(), model, inputs)
    step, _ = Checkpoints(run.checkpoints, model=model, golden_logits=logits).restore()
    if not step:
        raise _no_run(run.path, "a run without a checkpoint")
    return RestoredRun(
        model=model,
        preprocess=preprocess,
        schema=schema,
        config=config,
        step=step,
        record=record,
        workdir=run,
    )


def _no_run(directory: pathlib.Path, received: str) -> InputError:
    return InputError(
        f"--workdir {directory}",
        received=received,
        expected="the working directory of a training run",
        action="Train first: `python -m pipeline.train --workdir=…`.",
    )
