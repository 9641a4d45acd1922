"""The ledger adds up to the wall time, whatever ends a process, and says what a kill undid."""

import json
import pathlib
import time
import typing

import pytest

from pipeline.base.errors import InputError
from pipeline.training.state import goodput
from pipeline.training.state.goodput import ENTRY_KINDS, GoodputLog, Kind, Spent, time_spent


class Clock:
    """Stands still until it is told that seconds have passed."""

    def __init__(self) -> None:
        self.now = 1_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def path(tmp_path) -> pathlib.Path:
    return tmp_path / "ledger.jsonl"


def process(path: pathlib.Path, clock: Clock, *, from_step: int, age_s: float = 3.0) -> GoodputLog:
    """A process that has compiled for 2 s, its first step among it, and waited half a second of them."""
    one = GoodputLog(path, age_s=age_s, clock=clock, now=clock, beats=False)
    one.write()
    one.began_at(from_step)
    with one.during("compile"):
        clock.now += 2.0
    one.trained(1, waited=0.5, first=True)
    return one


def steps(one: GoodputLog, clock: Clock, number: int, *, waited: float = 0.0) -> None:
    """Steps of a second each."""
    with one.during("training"):
        clock.now += number
    one.trained(number, waited=waited)


def save(one: GoodputLog, clock: Clock, seconds: float = 0.25) -> None:
    with one.during("checkpoint"):
        clock.now += seconds
        one.saved(seconds)


def account(path: pathlib.Path) -> Spent:
    return time_spent(goodput.read_goodput(path))


def spent(path: pathlib.Path) -> dict[str, float]:
    """Kinds that took time."""
    return {kind: pytest.approx(seconds) for kind, seconds in account(path).seconds.items() if seconds}


def test_one_process(path, clock):
    with process(path, clock, from_step=0) as one:
        steps(one, clock, 9, waited=1.0)
        save(one, clock)
        clock.now += 0.125  # a callback
        with one.during("report"):
            clock.now += 1.0
            with one.during("evaluation"):  # not the report's
                clock.now += 4.0
    expected = {"start": 3.5, "compile": 1.5, "productive": 8.0, "input": 1.0, "checkpoint": 0.25}
    assert spent(path) == expected | {"callbacks": 0.125, "report": 1.0, "evaluation": 4.0}
    assert account(path).wall_s == pytest.approx(clock.now - 1_000.0 + 3.0)


def test_what_a_kill_undid_is_lost_and_the_rest_counts(path, clock):
    killed = process(path, clock, from_step=0)
    steps(killed, clock, 9, waited=1.0)
    save(killed, clock)
    steps(killed, clock, 5, waited=2.0)
    killed.write()
    clock.now += 60  # nobody knows until when it lived
    with process(path, clock, from_step=10) as again:
        steps(again, clock, 5)
    expected = {"start": 3.5, "compile": 3.0, "productive": 8.0 + 5.0, "input": 1.0, "checkpoint": 0.25}
    assert spent(path) == expected | {"restart": 3.5, "lost": 5.0, "unwritten": 0.1}
    assert account(path).away_s == pytest.approx(60 - 3.0 - 0.1)


def test_a_process_that_was_refused_is_no_part_of_the_run(path, clock):
    with pytest.raises(InputError), GoodputLog(path, age_s=3.0, clock=clock, now=clock, beats=False):
        raise InputError("image_size", received="none", expected="a size", action="Set one.")
    with process(path, clock, from_step=0) as one:
        steps(one, clock, 10)
    assert spent(path) == {"start": 3.5, "compile": 1.5, "productive": 10.0}
    assert len(account(path).processes) == 1


def test_a_start_after_a_kill_before_the_first_checkpoint_is_a_restart(path, clock):
    process(path, clock, from_step=0).write()
    with process(path, clock, from_step=0):
        pass
    assert spent(path)["restart"] == 3.5


def test_the_longest_save_of_all_processes_is_told(path, clock):
    killed = process(path, clock, from_step=0)
    for seconds in (0.25, 0.5, 0.125):
        save(killed, clock, seconds)
    with process(path, clock, from_step=1) as again:
        save(again, clock)
        with again.during("checkpoint"):  # the end waits for what is being written: that stalls nothing
            clock.now += 2.0
    assert account(path).longest_save_s == 0.5
    assert account(path).seconds["checkpoint"] == 3.125


def test_sums_to_the_wall_time_over_three_restarts(path, clock):
    """Killed in the middle of steps; the last line is at most an interval old, as the thread sees to."""
    lived = 0.0
    for restart in range(4):
        before, end = clock.now, restart == 3
        one = process(path, clock, from_step=20 * restart)
        steps(one, clock, 19, waited=0.5)
        save(one, clock)
        steps(one, clock, 7)
        one.write()
        clock.now += 0.15
        lived += clock.now - before + 3.0
        if end:
            one.__exit__()
        clock.now += 10
    assert account(path).wall_s == pytest.approx(lived, rel=0.01)
    assert account(path).seconds["lost"] == pytest.approx(3 * 7.0)
    assert [one.was_killed for one in account(path).processes] == [True, True, True, False]


def test_steps_that_two_kills_undid_are_lost_once(path, clock):
    first = process(path, clock, from_step=0)
    steps(first, clock, 9)
    save(first, clock)
    second = process(path, clock, from_step=10)
    steps(second, clock, 4)
    second.write()
    with process(path, clock, from_step=5) as third:  # the newest checkpoint was damaged
        steps(third, clock, 1)
    # Of the first process's 9 seconds for the steps 2 to 10, the checkpoint of step 5 is not on a line.
    assert account(path).seconds["lost"] == pytest.approx(9 * 5 / 10 + 4, abs=0.6)


def test_the_thread_writes_while_a_block_lasts(path):
    with GoodputLog(path) as one, one.during("compile"):
        deadline = time.monotonic() + 20
        while len(goodput.read_goodput(path)) < 2 and time.monotonic() < deadline:
            time.sleep(0.02)
        [_, line, *_] = goodput.read_goodput(path)
    assert line["seconds"]["compile"] > 0.1
    assert not line["ended"]
    assert goodput.read_goodput(path)[-1]["ended"]


def test_a_line_that_a_kill_cut_short_is_dropped(path, clock):
    process(path, clock, from_step=0).write()
    path.write_bytes(path.read_bytes()[:-9])
    with process(path, clock, from_step=0):
        pass
    assert [line["process"] for line in goodput.read_goodput(path)] == [1, 2, 2, 2]


def test_a_damaged_line_is_named(path, clock):
    process(path, clock, from_step=0).write()
    path.write_text(path.read_text().replace('"wall": 3', '"wall": 4', 1))
    with pytest.raises(InputError, match=r"ledger\.jsonl: received a line 1 with checksum .*delete it"):
        GoodputLog(path)


def test_a_worker_that_is_not_the_chief_writes_nothing(tmp_path, clock):
    with GoodputLog(None, clock=clock) as one, one.during("evaluation"):
        clock.now += 1
    assert not list(tmp_path.iterdir())


def test_an_error_ends_a_process_too(path, clock):
    with pytest.raises(ValueError, match="broken"), process(path, clock, from_step=0):
        raise ValueError("broken")
    assert json.loads(path.read_text().splitlines()[-1])["ended"]


def test_the_loop_names_kinds_that_there_are():
    assert set(typing.get_args(Kind)) <= set(ENTRY_KINDS)


def test_a_process_knows_its_age():
    assert 0.0 < goodput.process_age_s() < 86_400
