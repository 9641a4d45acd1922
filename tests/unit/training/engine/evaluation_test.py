"""Every example counts once, whatever the batch and the number of replicas."""

from collections.abc import Callable, Iterable

import keras
import numpy as np
import pytest
import tensorflow as tf
from sklearn import metrics as sk

from pipeline.data.dataset.selection import select
from pipeline.data.preprocessing.preprocess import Preprocess
from pipeline.data.statistics import loading
from pipeline.training.engine import evaluation
from pipeline.training.engine import strategy as strategy_lib
from pipeline.training.engine.evaluation import Evaluator
from pipeline.training.experiment import metrics as metrics_lib


def f1_of_scikit_learn(labels: np.ndarray, predictions: np.ndarray, weights: np.ndarray) -> float:
    return sk.f1_score(labels, predictions[:, 1] > 0.6, sample_weight=weights)


def area_of_scikit_learn(labels: np.ndarray, predictions: np.ndarray, weights: np.ndarray) -> float:
    return sk.average_precision_score(labels, predictions[:, 1], sample_weight=weights)


METRICS = ("f1@0.6", "pr_auc", f"{__name__}:f1_of_scikit_learn", f"{__name__}:area_of_scikit_learn")
WAYS = [("one_device", 32), ("mirrored", 2), ("mirrored", 32)]


@pytest.fixture(scope="module")
def evaluated(dataset) -> list[dict]:
    """The metrics in each of the ways."""
    return [evaluate(dataset, strategy_lib.create(name), largest) for name, largest in WAYS]


def evaluate(dataset, strategy: tf.distribute.Strategy, largest_batch: int) -> dict:
    evaluator = evaluator_of(dataset, strategy, largest_batch)
    metrics = evaluator("test")
    assert evaluator("test") == metrics
    return metrics


def evaluator_of(dataset, strategy: tf.distribute.Strategy, largest_batch: int) -> Evaluator:
    preprocess = Preprocess(dataset.schema, loading.load(dataset)["train"])
    with strategy.scope():
        numbers = keras.Input((preprocess.inputs.numeric,), name="numeric")
        model = keras.Model([numbers], keras.layers.Dense(1, kernel_initializer="ones")(numbers))
    return Evaluator(
        strategy,
        model,
        schema=dataset.schema,
        selections={"test": select(dataset, "test")},
        preprocess=preprocess,
        largest_batch=largest_batch,
        metrics=metrics_lib.build(METRICS, dataset.schema.label),
    )


@pytest.mark.parametrize("way", range(len(WAYS)))
def test_every_example_counts_once(evaluated, way):
    metrics = evaluated[way]
    assert metrics["examples"] == sum(map(sum, metrics["confusion_matrix"])) == 70
    assert metrics["auc"] == 1.0  # the label is the sign of the sum that this model computes


@pytest.mark.parametrize("way", range(len(WAYS)))
def test_metrics_that_a_config_names_are_exact_over_padded_batches(evaluated, way):
    """70 examples: in batches of 24 on one device, of 2 and of 24 on two replicas."""
    metrics = evaluated[way]
    assert metrics["f1@0.6"] == pytest.approx(metrics["f1_of_scikit_learn"], rel=1e-9)
    assert metrics["pr_auc"] == pytest.approx(metrics["area_of_scikit_learn"], rel=1e-9)


def test_metrics_do_not_depend_on_the_replicas(evaluated):
    one, *others = evaluated
    for other in others:
        assert other["loss"] == pytest.approx(one["loss"], rel=1e-6)
        assert other["confusion_matrix"] == one["confusion_matrix"]


@pytest.mark.parametrize(("kept_bytes", "times"), [(64 << 20, 1), (500, 2)])
def test_a_small_split_is_read_once(dataset, monkeypatch, kept_bytes, times):
    monkeypatch.setattr(evaluation, "_KEPT_BYTES", kept_bytes)
    evaluator, read = evaluator_of(dataset, strategy_lib.create("one_device"), 32), []
    monkeypatch.setattr(evaluator, "_distributed_batches", counted(evaluator._distributed_batches, read))
    assert evaluator("test") == evaluator("test")
    assert read == ["test"] * times


def counted(function: Callable[[str], Iterable], calls: list[str]) -> Callable[[str], Iterable]:
    def call(split: str) -> Iterable:
        calls.append(split)
        return function(split)

    return call
