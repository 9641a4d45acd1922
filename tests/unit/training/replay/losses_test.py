"""A replayed example costs what it cost in training."""

import dataclasses

import keras
import numpy as np

from pipeline.training.replay.evaluator import judge_of
from pipeline.training.tasks.classification import Binary
from pipeline.training.tasks.objective import Objective


def test_losses_are_smoothed_and_weighted_as_in_training():
    inputs = keras.Input((1,), name="x")
    model = keras.Model({"x": inputs}, keras.layers.Dense(1, kernel_initializer="ones")(inputs))
    objective = Objective(task=Binary(), label_smoothing=0.2, class_weights=(1.0, 3.0))
    logits, labels = np.array([[2.0], [2.0]], "float32"), np.array([0, 1], "int32")
    losses, predictions = judge_of(model, objective)({"x": logits}, labels)
    right, wrong = np.log1p(np.exp(-2.0)), np.log1p(np.exp(2.0))
    np.testing.assert_allclose(
        losses, [0.9 * wrong + 0.1 * right, 3 * (0.9 * right + 0.1 * wrong)], rtol=1e-5
    )
    weighted = dataclasses.replace(objective, mean_weight=4.0)
    twice_and_never, _ = judge_of(model, weighted)({"x": logits}, (labels, np.array([8.0, 0.0], "float32")))
    np.testing.assert_allclose(twice_and_never, [2 * losses[0], 0.0], rtol=1e-6)
    np.testing.assert_allclose(predictions[:, 1], 1 / (1 + np.exp(-2.0)), rtol=1e-5)
