"""Losses and hits of each task, on logits small enough to check by hand."""

import math

import numpy as np
import pytest
import tensorflow as tf

from pipeline.data.features import Label
from pipeline.training import heads


def test_outputs_of_each_task():
    assert heads.outputs(Label(name="y", classes=("no", "yes"))) == 1
    assert heads.outputs(Label(name="y", task="multiclass", classes=("a", "b", "c"))) == 3
    assert heads.outputs(Label(name="y", task="regression")) == 1


@pytest.mark.parametrize(
    ("task", "labels", "logits", "losses", "hits"),
    [
        ("binary", [1, 0], [[0.0], [0.0]], [math.log(2)] * 2, [0, 1]),
        ("binary", [1, 0], [[3.0], [3.0]], [0.04859, 3.04859], [1, 0]),
        ("multiclass", [0, 1], [[0.0, 0.0], [0.0, 5.0]], [math.log(2), 0.00672], [1, 1]),
        ("regression", [1.5, -1.0], [[1.0], [1.0]], [0.25, 4.0], [0, 0]),
    ],
)
def test_losses_and_hits(task, labels, logits, losses, hits):
    labels, logits = tf.constant(labels), tf.constant(logits)
    np.testing.assert_allclose(heads.losses(task, labels, logits), losses, atol=1e-5)
    np.testing.assert_array_equal(heads.hits(task, labels, logits), hits)
