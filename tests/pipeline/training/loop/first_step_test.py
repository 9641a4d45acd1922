"""The first step runs alone, and its time is told once; the sums are those of the whole call."""

from pipeline.training.loop.first_step import telling
from pipeline.training.loop.step_sums import Tally


def test_the_first_step_is_told_once():
    calls, told, times = [], [], iter([0.0, 2.5])

    def loop(steps: int) -> Tally:
        calls.append(steps)
        return Tally(steps=steps, seconds=steps / 2)

    run = telling(lambda: loop, lambda *seconds: told.append(seconds), clock=lambda: next(times))
    assert [run(4), run(3)] == [Tally(steps=4, seconds=2.0), Tally(steps=3, seconds=1.5)]
    assert (calls, told) == ([1, 3, 3], [(2.5, 0.5)])


def test_a_call_of_one_step_is_one_call():
    calls = []
    run = telling(lambda: lambda steps: calls.append(steps) or Tally(steps=steps), lambda *seconds: None)
    run(1)
    assert calls == [1]
