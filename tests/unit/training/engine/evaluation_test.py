"""Every example counts once, whatever the batch and the number of replicas."""

import keras
import pytest
import tensorflow as tf

from pipeline.data.dataset.selection import select
from pipeline.data.preprocessing.preprocess import Preprocess
from pipeline.data.statistics import loading
from pipeline.training.engine import strategy as strategy_lib
from pipeline.training.engine.evaluation import Evaluator


def evaluate(dataset, strategy: tf.distribute.Strategy, largest_batch: int) -> dict:
    preprocess = Preprocess(dataset.schema, loading.load(dataset)["train"])
    with strategy.scope():
        numbers = keras.Input((preprocess.inputs.numeric,), name="numeric")
        model = keras.Model([numbers], keras.layers.Dense(1, kernel_initializer="ones")(numbers))
    evaluator = Evaluator(
        strategy,
        model,
        schema=dataset.schema,
        selections={"test": select(dataset, "test")},
        preprocess=preprocess,
        largest_batch=largest_batch,
    )
    metrics = evaluator("test")
    assert evaluator("test") == metrics
    return metrics


@pytest.mark.parametrize(("name", "largest_batch"), [("one_device", 32), ("mirrored", 2), ("mirrored", 512)])
def test_every_example_counts_once(dataset, name, largest_batch):
    metrics = evaluate(dataset, strategy_lib.create(name), largest_batch)
    assert metrics["examples"] == sum(map(sum, metrics["confusion_matrix"])) == 70
    assert metrics["auc"] == 1.0  # the label is the sign of the sum that this model computes


def test_metrics_do_not_depend_on_the_replicas(dataset):
    one = evaluate(dataset, strategy_lib.create("one_device"), 16)
    two = evaluate(dataset, strategy_lib.create("mirrored"), 30)
    assert two["loss"] == pytest.approx(one["loss"], rel=1e-6)
    assert two["confusion_matrix"] == one["confusion_matrix"]
