"""Every example counts once, whatever the batch and the number of replicas."""

import keras
import pytest
import tensorflow as tf

from pipeline.data.dataset.selection import select
from pipeline.data.preprocessing.preprocess import Preprocess
from pipeline.data.statistics import loading
from pipeline.training.engine import strategy as strategy_lib
from pipeline.training.engine.evaluation import Evaluator

WAYS = [("one_device", 32), ("mirrored", 2), ("mirrored", 512)]


@pytest.fixture(scope="module")
def evaluated(dataset) -> list[dict]:
    """The metrics in each of the ways."""
    return [evaluate(dataset, strategy_lib.create(name), largest) for name, largest in WAYS]


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


@pytest.mark.parametrize("way", range(len(WAYS)))
def test_every_example_counts_once(evaluated, way):
    metrics = evaluated[way]
    assert metrics["examples"] == sum(map(sum, metrics["confusion_matrix"])) == 70
    assert metrics["auc"] == 1.0  # the label is the sign of the sum that this model computes


def test_metrics_do_not_depend_on_the_replicas(evaluated):
    one, *others = evaluated
    for other in others:
        assert other["loss"] == pytest.approx(one["loss"], rel=1e-6)
        assert other["confusion_matrix"] == one["confusion_matrix"]
