"""Ten examples an epoch in batches of four: epochs end in steps 3, 5, 8, 10, …"""

import dataclasses

import pytest

from pipeline.training.loop.clock import Cadence, total_steps

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
