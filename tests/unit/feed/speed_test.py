"""Speeds are per example, whatever an element holds."""

import dataclasses

import numpy as np
import pytest
import tensorflow as tf

from pipeline.feed import measure
from pipeline.feed.measure import Drawn, Span

SPAN = Span(wall_s=10.0, cpu_s=5.0, queued_s=0.0, others_s=0.0)
DRAWN = Drawn(elements=[1, 10, 10, 2], seconds=[2.0, 1.0, 1.0, 6.0], span=SPAN, memory_bytes=9)


def test_the_median_window_after_the_warm_up_counts():
    assert DRAWN.elements_per_s == 10.0
    assert measure.summarize(DRAWN, examples=100).examples_per_s == 1_000.0


def test_everything_costs():
    found = measure.summarize(DRAWN, examples=100)
    assert found.cpu_us == 1e6 * 5.0 / 2_200  # the warm-up is not in it
    assert found.wanted_cores == pytest.approx(10.0 * 5.0 / 22)  # what the median window keeps busy
    assert found.memory_bytes == 9


def test_threads_that_waited_for_a_core_wanted_it():
    waited = dataclasses.replace(DRAWN, span=dataclasses.replace(SPAN, queued_s=45.0))
    assert measure.summarize(waited, examples=100).wanted_cores == 5.0


def test_every_element_is_consumed():
    consumed = tf.Variable(0, dtype=tf.int64)

    def consume(number: tf.Tensor) -> tuple:
        return (number + 0 * consumed.assign_add(1),)

    drawn = measure.draw_batches(tf.data.Dataset.range(1 << 40).map(lambda n: (n,)), 0.05, consume)
    assert consumed == sum(drawn.elements) + 1  # the one that starts the clock


def test_slow_elements_are_waited_for():
    drawn = measure.draw_batches(tf.data.Dataset.range(1 << 40).map(lambda n: (n,)), seconds=-1.0)
    assert drawn.elements == [1] * (measure.WINDOWS + 1)


def test_a_pipeline_with_python_in_it_can_be_left():
    def count(number: np.ndarray) -> np.int64:
        return np.int64(sum(range(10_000)))

    dataset = tf.data.Dataset.range(1 << 40).map(
        lambda n: (tf.numpy_function(count, [n], tf.int64),), num_parallel_calls=8
    )
    for _ in range(5):  # in each, calls are under way when it ends
        measure.draw_batches(dataset.prefetch(64), 0.02)


def test_a_dataset_is_measured():
    found = measure.measure_speed(
        tf.data.Dataset.range(1 << 40).map(lambda n: (n,)), examples=1, seconds=0.05
    )
    assert found.examples_per_s > 0 and found.cpu_us > 0
