"""The loss of a regression is the squared error, and its logit is its value."""

import numpy as np
import tensorflow as tf

from pipeline.training.tasks.classification import Regression

LABELS, LOGITS = tf.constant([1.5, -1.0]), tf.constant([[1.0], [1.0]])


def test_losses_are_squared_errors():
    np.testing.assert_allclose(Regression().losses(LABELS, LOGITS), [0.25, 4.0], atol=1e-5)


def test_no_value_is_right_or_wrong():
    assert not Regression().has_accuracy
    np.testing.assert_array_equal(Regression().hits(LABELS, LOGITS), [0, 0])


def test_values_are_the_logits():
    np.testing.assert_array_equal(Regression().predictions(LOGITS), [1.0, 1.0])
