"""Sums of steps become averages and speeds."""

from pipeline.training.loop.clock import Tally

FIRST = Tally(steps=3, seconds=1.5, input_wait_s=0.25, loss=24.0, hits=6.0)
SECOND = Tally(steps=1, seconds=0.5, input_wait_s=0.25, loss=8.0, hits=10.0)


def test_tallies_add_up():
    together = FIRST + SECOND
    assert together == Tally(steps=4, seconds=2.0, input_wait_s=0.5, loss=32.0, hits=16.0)


def test_averages_are_over_examples():
    whole = FIRST + SECOND
    assert whole.averages(global_batch=8, has_accuracy=True) == {"loss": 1.0, "accuracy": 0.5}
    assert whole.averages(global_batch=8, has_accuracy=False) == {"loss": 1.0}


def test_speed():
    assert (FIRST + SECOND).speed(global_batch=8) == {
        "examples_per_s": 16.0,
        "step_ms": 500.0,
        "input_wait": 0.25,
    }


def test_nothing_yet_divides_by_no_zero():
    assert Tally().averages(global_batch=8, has_accuracy=True) == {"loss": 0.0, "accuracy": 0.0}
    assert Tally().speed(global_batch=8)["examples_per_s"] == 0.0
