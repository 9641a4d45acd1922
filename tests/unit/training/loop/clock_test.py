"""Positions, times and sums of steps."""

import dataclasses
import itertools
import json

import numpy as np
import pytest

from pipeline.training.loop.clock import Cadence, StepTimes, Tally, total_steps
from pipeline.training.loop.outer import announce_first_step
from pipeline.training.state.goodput import GoodputLog

# Ten examples an epoch in batches of four: epochs end in steps 3, 5, 8, 10, …

CADENCE = Cadence(
    records=10,
    global_batch=4,
    total_steps=10,
    steps_per_loop=100,
    log_every_steps=100,
    checkpoint_every_steps=100,
)


def stops(cadence: Cadence, start: int = 0) -> list[int]:
    found = [start]
    while found[-1] < cadence.total_steps:
        found.append(cadence.next_stop(found[-1]))
    return found[1:]


def test_stops_where_an_epoch_takes_its_last_example():
    assert stops(CADENCE) == [3, 5, 8, 10]
    assert all(CADENCE.ends_epoch(step) for step in (3, 5, 8, 10))
    assert not any(CADENCE.ends_epoch(step) for step in (1, 2, 4, 6, 7, 9))


@pytest.mark.parametrize("field", ["steps_per_loop", "log_every_steps", "checkpoint_every_steps"])
def test_stops_at_multiples(field):
    assert stops(dataclasses.replace(CADENCE, **{field: 4})) == [3, 4, 5, 8, 10]


def test_resumed_run_stops_where_the_undisturbed_one_does():
    cadence = dataclasses.replace(CADENCE, steps_per_loop=3, checkpoint_every_steps=4)
    for step in stops(cadence):
        assert stops(cadence, start=step) == [stop for stop in stops(cadence) if stop > step]


def test_whatever_is_saved_is_logged():
    cadence = dataclasses.replace(CADENCE, checkpoint_every_steps=2, log_every_steps=7)
    assert [step for step in range(1, 11) if cadence.saves(step)] == [2, 3, 4, 5, 6, 8, 10]
    assert all(cadence.logs(step) for step in range(1, 11) if cadence.saves(step) or step == 7)


def test_position_and_epochs_count_examples():
    assert CADENCE.position(3) == 12
    assert CADENCE.epochs(5) == 2.0
    assert [CADENCE.epoch(step) for step in range(6)] == [0, 0, 0, 1, 1, 2]


def test_a_batch_larger_than_an_epoch_ends_one_every_step():
    assert stops(dataclasses.replace(CADENCE, global_batch=32, total_steps=3)) == [1, 2, 3]


def test_total_steps_cover_every_example():
    assert total_steps(epochs=3, records=10, global_batch=4) == 8
    assert total_steps(epochs=0.1, records=10, global_batch=4) == 1
    assert total_steps(epochs=1.1, records=50_000, global_batch=500) == 110


# Sums of steps become averages and speeds.

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


# Quantiles of step times, exact between log points and to one percent over a process.

SECONDS = np.random.default_rng(0).lognormal(-6, 1, size=10_000)


@pytest.fixture
def times() -> StepTimes:
    """After a first step of a minute, which compiled."""
    times = StepTimes()
    times.add(np.array([60.0]))
    return times


def test_since_the_last_point(times):
    times.add(np.arange(1, 101) / 1e3)
    assert times.take() == pytest.approx({"step_p50_ms": 50.0, "step_p95_ms": 95.0, "step_max_ms": 100.0})
    assert times.take() == {}


def test_over_a_process(times):
    for some in np.array_split(SECONDS, 7):
        times.add(some)
        times.take()
    exact = dict(zip(times.of_all(), 1e3 * np.quantile(SECONDS, [0.5, 0.95, 1.0]), strict=True))
    assert times.of_all() == pytest.approx(exact, rel=0.01)


def test_the_first_step_of_all_does_not_count(times):
    assert (times.take(), times.of_all()) == ({}, {})


def test_no_quantile_is_above_the_longest_step(times):
    times.add(np.full(50, 0.0123))
    assert times.of_all() == dict.fromkeys(("step_p50_ms", "step_p95_ms", "step_max_ms"), pytest.approx(12.3))
    assert max(times.of_all().values()) == times.of_all()["step_max_ms"]


@pytest.mark.parametrize("odd", [0.0, -1e-9, 1e9])
def test_whatever_a_clock_says(times, odd):
    times.add(np.array([odd]))
    assert times.of_all()["step_max_ms"] == pytest.approx(max(0.0, 1e3 * odd))


# The first step runs alone, and its time is told once; the sums are those of the whole call.


def test_the_first_step_is_told_once():
    calls, told, clock = [], [], iter([0.0, 2.5])

    def loop(steps: int) -> Tally:
        calls.append(steps)
        return Tally(steps=steps, seconds=steps / 2)

    run = announce_first_step(
        lambda: loop, lambda *seconds: told.append(seconds), times=GoodputLog(None), clock=lambda: next(clock)
    )
    assert [run(4), run(3)] == [Tally(steps=4, seconds=2.0), Tally(steps=3, seconds=1.5)]
    assert (calls, told) == ([1, 3, 3], [(2.5, 0.5)])


def test_what_the_log_points_say_of_waiting_is_what_the_goodput_log_says(tmp_path):
    def loop(steps: int) -> Tally:  # the first step waits 20 s for the pipeline, each later one a quarter
        nonlocal waits
        wait, waits = steps * waits, 0.25
        return Tally(steps=steps, seconds=steps + wait, input_wait_s=wait)

    waits, seconds = 20.0, itertools.count(step=100.0)
    with GoodputLog(tmp_path / "ledger.jsonl", clock=lambda: next(seconds), beats=False) as log:
        run = announce_first_step(lambda: loop, lambda *_: None, times=log)
        window = run(4) + run(4)
    assert (window.steps, window.seconds, window.input_wait_s) == (8, 1 + 7 * 1.25, 7 * 0.25)
    [*_, line] = (tmp_path / "ledger.jsonl").read_text().splitlines()
    assert json.loads(line)["seconds"]["input"] == 7 * 0.25


def test_a_call_of_one_step_is_one_call():
    calls = []
    run = announce_first_step(
        lambda: lambda steps: calls.append(steps) or Tally(steps=steps),
        lambda *_: None,
        times=GoodputLog(None),
    )
    run(1)
    assert calls == [1]


def test_waiting_counts_as_the_start_only_before_the_first_step(tmp_path):
    seconds = itertools.count()  # each look at the clock takes one
    with GoodputLog(tmp_path / "ledger.jsonl", clock=lambda: float(next(seconds)), beats=False) as ledger:
        run = announce_first_step(
            lambda: lambda steps: Tally(steps=steps, input_wait_s=0.25), lambda *_: None, times=ledger
        )
        run(1)
        run(3)
    [*_, line] = (tmp_path / "ledger.jsonl").read_text().splitlines()
    assert '"input": 0.25' in line
    assert '"step": 4' in line
