"""What is compared: an experiment with its weights, of a run or before there is one."""

import dataclasses
from collections.abc import Sequence

import keras
import numpy as np
import tensorflow as tf
from ml_collections import ConfigDict

from pipeline.data.dataset.manifest import Dataset
from pipeline.data.dataset.selection import select
from pipeline.data.preprocessing.label_scale import LabelScale
from pipeline.data.schema.schema import Schema
from pipeline.data.statistics import loading
from pipeline.training.engine.precision import Precision
from pipeline.training.experiment import objective, training_data
from pipeline.training.experiment.model import build_model, build_preprocess, learned_scale
from pipeline.training.replaying.training_stream import Batch, TrainingStream
from pipeline.training.tasks.objective import Objective

FLOAT32 = Precision(policy="float32", reason="to compare with")
BFLOAT16 = Precision(policy="mixed_bfloat16", reason="to compare")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Subject:
    """An experiment.

    Attributes:
      learned: the unit in which the model learns a number.
      objective: what training minimises.
      weights: of the model, in the order of its `weights`; None: those that it begins with.
    """

    config: ConfigDict
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

    def model(self, precision: Precision = FLOAT32) -> keras.Model:
        """A new model with these weights; its dropout drops nothing, so that it computes the same twice."""
        if not tf.distribute.has_strategy():  # whose scope it would spoil (TensorFlow 2.21)
            keras.utils.clear_session(free_memory=False)  # layers have the same names in every model
        made = build_model(
            self.config,
            schema=self.schema,
            inputs=self.stream.preprocess.inputs,
            precision=precision,
            scale=self.learned,
        )
        if self.weights is not None:
            made.set_weights(self.weights)
        for layer in made._flatten_layers():  # no public way reaches layers in layers (Keras 3.15)
            if hasattr(layer, "rate"):
                layer.rate = 0.0
        return made


def of_config(config: ConfigDict, dataset: Dataset) -> Subject:
    """The experiment that a run would begin; raises InputError where the config does not fit the dataset."""
    selections = {config.train.split: select(dataset, config.train.split), **training_data.others(config)}
    statistics = loading.of_training(dataset)
    return Subject(
        config=config,
        stream=TrainingStream(
            config=config,
            data=training_data.training_data(config, selections),
            preprocess=build_preprocess(config, dataset.schema, statistics),
        ),
        learned=learned_scale(config, dataset.schema.label, statistics),
        objective=objective.build(config, dataset.schema, statistics),
    )
