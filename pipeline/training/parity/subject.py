"""The subject of a comparison: an experiment with its weights, from a run or before there is one."""

import dataclasses
from collections.abc import Callable, Sequence

import keras
import numpy as np
import tensorflow as tf

from pipeline.data.dataset.manifest import Dataset
from pipeline.data.preprocessing.preprocess import LabelScale, merged_groups
from pipeline.data.schema.schema import Schema
from pipeline.data.statistics import loading
from pipeline.training.engine.precision import FLOAT32, Precision
from pipeline.training.experiment import data, first_weights, objective
from pipeline.training.experiment.config import Experiment
from pipeline.training.experiment.model import build_model, build_preprocess, learned_scale
from pipeline.training.experiment.model_code import without_first_weights
from pipeline.training.experiment.restore import RestoredRun
from pipeline.training.replay.stream import Batch, TrainingStream, open_stream
from pipeline.training.tasks.objective import Objective

Begins = Callable[[str], None]  # receives the name of a comparison before it is made


def unheard(name: str) -> None:
    """Does nothing with the name of a comparison."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Subject:
    """An experiment.

    Attributes:
      learned: the unit in which the model learns a number.
      objective: what training minimises.
      weights: the model's weights, in the order of its `weights`; None: the weights with which it begins.
    """

    experiment: Experiment
    stream: TrainingStream
    learned: LabelScale
    objective: Objective
    weights: Sequence[np.ndarray] | None = None

    @property
    def schema(self) -> Schema:
        return self.stream.schema

    def batches(self, steps: int) -> list[Batch]:
        """The global batches of the first steps; raises InputError where a record is damaged."""
        return list(self.stream.batches(0, steps=steps))

    def rows_of(self, batch: Batch) -> dict[str, tf.Tensor]:
        """The inputs of a batch as the model takes them by itself: groups become single rows."""
        inputs, _ = batch
        return merged_groups(inputs) if self.schema.group else inputs

    def model(self, precision: Precision = FLOAT32) -> keras.Model:
        """A new model with these weights; its dropout drops nothing, so that it computes the same twice."""
        # This is left out inside a strategy, because it would spoil the strategy's scope (TensorFlow 2.21).
        if not tf.distribute.has_strategy():
            keras.utils.clear_session(free_memory=False)  # so that layers have the same names in every model
        args = self.experiment.model
        made = build_model(
            args if self.weights is None else without_first_weights(args),
            schema=self.schema,
            inputs=self.stream.preprocess.inputs,
            precision=precision,
            scale=self.learned,
        )
        if self.weights is not None:
            made.set_weights(self.weights)
        for layer in made._flatten_layers():  # Keras (3.15) has no public way to layers in layers
            # Only a layer that draws has a seed generator: `rate` may be anything of another layer.
            if layer._seed_generators and hasattr(layer, "rate"):
                layer.rate = 0.0
        return made


def of_experiment(experiment: Experiment, dataset: Dataset) -> Subject:
    """Builds the subject with which a run would begin; raises InputError if the experiment does not fit the
    dataset.
    """
    args = experiment.data
    selections = data.selections_of(args, dataset)
    statistics = loading.of_training(dataset)
    subject = Subject(
        experiment=experiment,
        stream=TrainingStream(
            args=args,
            data=data.training_data(args, selections),
            preprocess=build_preprocess(args, dataset.schema, statistics),
        ),
        learned=learned_scale(experiment.loss, dataset.schema.label, statistics),
        objective=objective.build(experiment, dataset.schema, statistics),
    )
    if not experiment.model.init:
        return subject
    model = subject.model()
    source = first_weights.source_of(experiment.model.init)
    first_weights.load(model, source, without=experiment.model.init_without)
    return dataclasses.replace(subject, weights=model.get_weights())


def of_run(run: RestoredRun, *, moved_to: Sequence[str] = ()) -> Subject:
    """Takes the weights of a run; `moved_to` is where its datasets are now, if they were moved."""
    stream = open_stream(run.workdir, run.record, moved_to=moved_to)
    return Subject(
        experiment=run.experiment,
        stream=stream,
        learned=run.learned,
        objective=objective.build(run.experiment, stream.schema, run.statistics),
        weights=run.model.get_weights(),
    )
