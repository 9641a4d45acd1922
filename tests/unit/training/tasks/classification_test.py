"""Losses, hits and predictions of classification, on logits small enough to check by hand."""

import math

import numpy as np
import pytest
import tensorflow as tf

from pipeline.training.tasks.classification import Binary, Multiclass


@pytest.mark.parametrize(
    ("task", "labels", "logits", "losses", "hits"),
    [
        (Binary(), [1, 0], [[0.0], [0.0]], [math.log(2)] * 2, [0, 1]),
        (Binary(), [1, 0], [[3.0], [3.0]], [0.04859, 3.04859], [1, 0]),
        (Multiclass(), [0, 1], [[0.0, 0.0], [0.0, 5.0]], [math.log(2), 0.00672], [1, 1]),
    ],
)
def test_losses_and_hits(task, labels, logits, losses, hits):
    labels, logits = tf.constant(labels), tf.constant(logits)
    np.testing.assert_allclose(task.losses(labels, logits), losses, atol=1e-5)
    np.testing.assert_array_equal(task.hits(labels, logits), hits)


def test_a_small_probability_keeps_its_digits():
    probabilities = Binary().predictions(tf.constant([[2.0], [-40.0]])).numpy()
    assert probabilities.shape == (2, 2)
    assert probabilities[0, 1] == pytest.approx(0.8808, abs=1e-4)
    assert 0 < probabilities[1, 1] < 1e-17


def test_probabilities_of_equal_logits_are_equal():
    np.testing.assert_allclose(Multiclass().predictions(tf.zeros([1, 3])), [[1 / 3] * 3], rtol=1e-6)
