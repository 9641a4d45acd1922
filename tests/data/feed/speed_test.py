"""Speeds are per example, whatever an element holds."""

import tensorflow as tf

from pipeline.data.feed import speed
from pipeline.data.feed.speed import puller
from pipeline.data.feed.usage import Span


def counted() -> tuple[tf.data.Dataset, tf.Variable]:
    drawn = tf.Variable(0, dtype=tf.int64)
    dataset = tf.data.Dataset.range(1 << 40).map(lambda n: (n, drawn.assign_add(1)))
    return dataset, drawn


def test_so_many_elements_are_drawn_at_least():
    dataset, drawn = counted()
    pull = puller(dataset)
    pull(1)
    pull(5)
    assert drawn >= 6  # TensorFlow may prepare some ahead


def test_every_element_is_consumed():
    consumed = tf.Variable(0, dtype=tf.int64)

    def consume(number: tf.Tensor, count: tf.Tensor) -> tuple:
        return (consumed.assign_add(1), count)

    puller(counted()[0], consume)(5)
    assert consumed == 5


def window(*, elements: int, wall_s: float, memory_bytes: int = 1) -> speed.Window:
    span = Span(wall_s=wall_s, cpu_s=0.5, queued_s=0.0, others_s=0.0, idle_share=1.0)
    return speed.Window(elements=elements, span=span, memory_bytes=memory_bytes)


def test_the_median_window_counts():
    windows = [
        window(elements=10, wall_s=1.0),
        window(elements=10, wall_s=5.0),
        window(elements=10, wall_s=1.0),
    ]
    assert speed.summary(windows, examples=100).examples_per_s == 1_000.0


def test_all_windows_cost():
    windows = [window(elements=5, wall_s=1.0), window(elements=5, wall_s=1.0, memory_bytes=9)]
    found = speed.summary(windows, examples=100)
    assert found.cpu_us == 1_000.0  # a second for 1,000 examples
    assert found.wanted_cores == 0.5
    assert found.memory_bytes == 9


def test_a_dataset_is_measured():
    found = speed.measure(tf.data.Dataset.range(1 << 40), examples=1, seconds=0.02)
    assert found.examples_per_s > 0 and found.cpu_us > 0
