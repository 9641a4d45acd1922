"""Stages taken apart are the stages that production runs."""

import dataclasses

import numpy as np
import pytest
import tensorflow as tf

from pipeline.data.input.stages import Recipe, Stage
from pipeline.feed.measure import hold, size_of, stages_alone


def numbers(rows: int) -> tf.data.Dataset:
    numbered = tf.data.Dataset.range(1_000).repeat().map(lambda n: (n, tf.strings.as_string(n)))
    return numbered.batch(rows, drop_remainder=True)


ADD = Stage(name="add", apply=lambda positions, text: (positions + 1, text))
DROP = Stage(name="drop", apply=lambda positions, text: (positions,))


def first_of_each(recipe: Recipe) -> dict[str, tuple]:
    return {
        alone.name: (next(iter(alone.dataset))[0], alone.examples, alone.bytes_per_example)
        for alone in stages_alone(recipe, patience_s=60.0)
    }


@pytest.mark.parametrize("each", [False, True])
def test_small_groups_are_batched_after_their_stages(each: bool):
    add = dataclasses.replace(ADD, each=each)
    stages = first_of_each(Recipe(read=lambda: numbers(3), rows_read=3, batch=4, stages=(add, DROP)))
    assert list(stages) == ["read", "add", "drop", "batch", "copy"]
    assert [examples for _, examples, _ in stages.values()] == [3, 3, 3, 4, 4]
    np.testing.assert_array_equal(stages["add"][0], [1, 2, 3])
    np.testing.assert_array_equal(stages["batch"][0], [1, 2, 3, 4])
    assert stages["drop"][2] == stages["copy"][2] == 8.0  # bytes of an int64


def test_many_batches_that_are_read_at_once_are_parted_last():
    stages = first_of_each(Recipe(read=lambda: numbers(8), rows_read=8, batch=4, stages=(ADD, DROP)))
    assert list(stages) == ["read", "add", "drop", "batch", "copy"]
    assert [examples for _, examples, _ in stages.values()] == [8, 8, 8, 4, 4]
    np.testing.assert_array_equal(stages["copy"][0], [1, 2, 3, 4])


def test_a_batch_that_is_read_at_once_is_left_whole():
    stages = first_of_each(Recipe(read=lambda: numbers(4), rows_read=4, batch=4, stages=(DROP,)))
    assert list(stages) == ["read", "drop", "copy"]


def test_text_counts_by_its_characters():
    assert size_of((tf.constant(["abc", ""]), {"x": tf.zeros([2, 3])})) == 3 + 24


def test_a_slow_stage_is_shown_two_elements():
    assert len(hold(numbers(1), patience_s=0.0)) == 2
