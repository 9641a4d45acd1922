"""Batches whose shape changes are named, with the feature, before each is compiled anew."""

import keras
import pytest
import tensorflow as tf

from pipeline.base.errors import InputError
from pipeline.training.engine import batches
from pipeline.training.engine import strategy as strategy_lib
from pipeline.training.engine.step import inner_loop, train_step
from pipeline.training.tasks.classification import Regression


def test_a_second_trace_names_the_feature_and_both_shapes():
    once = batches.traced_once(lambda inputs, labels: inputs["age"], thing="evaluation of 'x'")
    summed = tf.function(once, autograph=False)
    summed({"age": tf.zeros([4, 3]), "sex": tf.zeros([4])}, tf.zeros([4]))
    summed({"age": tf.ones([4, 3]), "sex": tf.zeros([4])}, tf.zeros([4]))
    with pytest.raises(
        InputError,
        match=r"evaluation of 'x', model input 'age': received a batch of \[4, 5\] float32 after batches of "
        r"\[4, 3\] float32; expected the same",
    ):
        summed({"age": tf.zeros([4, 5]), "sex": tf.zeros([4])}, tf.zeros([4]))


def test_another_type_or_a_label_is_named_too():
    function = batches.traced_once(lambda *batch: None, thing="a")
    function({"x": tf.zeros([2])}, tf.zeros([2]))
    with pytest.raises(InputError, match=r"input 'x': received a batch of \[2\] int32 after .* float32"):
        function({"x": tf.zeros([2], tf.int32)}, tf.zeros([2]))
    with pytest.raises(InputError, match=r"input 'label': received a batch of \[2, 1\] float32"):
        function({"x": tf.zeros([2])}, tf.zeros([2, 1]))


@pytest.mark.parametrize("name", ["one_device", "mirrored"])
def test_a_size_that_is_known_at_run_time_only_is_refused_before_training(name):
    strategy = strategy_lib.create(name)
    with strategy.scope():
        inputs = keras.Input((None, 2), name="words")
        outputs = keras.layers.Dense(1)(keras.ops.sum(inputs, axis=1))
        model = keras.Model({"words": inputs}, outputs)
        model.optimizer = keras.optimizers.SGD(0.1)
        model.optimizer.build(model.trainable_variables)

    def batches(context: tf.distribute.InputContext) -> tf.data.Dataset:
        whole = tf.data.Dataset.range(8).map(lambda n: ({"words": tf.zeros([n % 2 + 1, 2])}, 0.0))
        return whole.ragged_batch(2, drop_remainder=True).map(
            lambda inputs, label: ({"words": inputs["words"].to_tensor()}, label)
        )

    step = train_step(model, model.optimizer, task=Regression(), global_batch=4)
    with pytest.raises(
        InputError, match=r"'words': received batches of shape \[2, \?, 2\] float32; expected"
    ):
        inner_loop(strategy, step, iter(strategy.distribute_datasets_from_function(batches)))
