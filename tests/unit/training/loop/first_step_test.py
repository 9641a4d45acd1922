"""The first step runs alone, and its time is told once; the sums are those of the whole call."""

import itertools

from pipeline.training.loop.clock import Tally
from pipeline.training.loop.outer import announce_first_step
from pipeline.training.state.goodput import Ledger


def test_the_first_step_is_told_once():
    calls, told, clock = [], [], iter([0.0, 2.5])

    def loop(steps: int) -> Tally:
        calls.append(steps)
        return Tally(steps=steps, seconds=steps / 2)

    run = announce_first_step(
        lambda: loop, lambda *seconds: told.append(seconds), times=Ledger(None), clock=lambda: next(clock)
    )
    assert [run(4), run(3)] == [Tally(steps=4, seconds=2.0), Tally(steps=3, seconds=1.5)]
    assert (calls, told) == ([1, 3, 3], [(2.5, 0.5)])


def test_a_call_of_one_step_is_one_call():
    calls = []
    run = announce_first_step(
        lambda: lambda steps: calls.append(steps) or Tally(steps=steps), lambda *_: None, times=Ledger(None)
    )
    run(1)
    assert calls == [1]


def test_waiting_counts_as_the_start_only_before_the_first_step(tmp_path):
    seconds = itertools.count()  # each look at the clock takes one
    with Ledger(tmp_path / "ledger.jsonl", clock=lambda: float(next(seconds)), beats=False) as ledger:
        run = announce_first_step(
            lambda: lambda steps: Tally(steps=steps, input_wait_s=0.25), lambda *_: None, times=ledger
        )
        run(1)
        run(3)
    [*_, line] = (tmp_path / "ledger.jsonl").read_text().splitlines()
    assert '"input": 0.25' in line
    assert '"step": 4' in line
