"""What a faster input could give, measured without a trace of it."""

import pathlib

import pytest
import tensorflow as tf

from pipeline.training.loop.clock import Tally
from pipeline.training.run import headspace
from pipeline.training.run.headspace import Headspace, own_then_kept
from pipeline.training.run.request import Request
from tests.shared.matrix import quick_cases
from tests.shared.parsed import parsed
from tests.shared.small_run import small_config


def test_kept_batches_are_made_once_more_and_then_no_more():
    made = []

    def make(number: int) -> int:
        made.append(number)
        return number

    batches = tf.data.Dataset.range(100).map(lambda number: tf.py_function(make, [number], tf.int64))
    read = [int(number) for number in own_then_kept(batches, own=5, kept=3).take(14)]
    assert read == [0, 1, 2, 3, 4, *3 * [0, 1, 2]]
    assert [int(number) for number in made] == [0, 1, 2, 3, 4, 0, 1, 2]


def test_the_gain_is_the_ratio_of_the_times_of_a_step():
    own, kept = Tally(steps=10, seconds=3.0, input_wait_s=1.5), Tally(steps=20, seconds=3.0)
    found = Headspace(global_batch=100, own=own, kept=kept, flops_per_example=7.0)
    assert found.to_json() == {
        "own": {"examples_per_s": pytest.approx(1000 / 3), "step_ms": 300.0, "input_wait": 0.5},
        "kept": {"examples_per_s": pytest.approx(2000 / 3), "step_ms": 150.0, "input_wait": 0.0},
        "gain": 2.0,
        "flops_per_example": 7.0,
    }
    assert "the input is the limit: without its cost, at most 2.00 times" in found.lines()
    alike = Headspace(global_batch=100, own=kept, kept=kept)
    assert "the input is not the limit" in alike.lines()


@pytest.mark.parametrize("strategy", quick_cases(["one_device", "mirrored"], ["mirrored"]))
def test_a_run_is_measured_and_nothing_is_written(dataset, tmp_path: pathlib.Path, strategy: str):
    request = Request(
        experiment=parsed(small_config()),
        dataset=dataset,
        workdir=tmp_path / "run",
        strategy=strategy,
        precision="float32",
    )
    found = headspace.measure(request, steps=12)
    assert (found.own.steps, found.kept.steps) == (12, 12)
    assert found.own.seconds > 0 < found.kept.seconds
    # The examples of kept batches come again and again, and are learned by heart.
    assert found.kept.loss < found.own.loss
    assert not (tmp_path / "run").exists()
