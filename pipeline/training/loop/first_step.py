"""Runs the first step of a process alone, and tells how long it took: that step compiles."""

import time
from collections.abc import Callable

from pipeline.training.loop.outer import InnerLoop
from pipeline.training.loop.step_sums import Tally
from pipeline.training.loop.times import Times

Show = Callable[[float, float], None]  # seconds to trace the graph, seconds of the first step


def telling(
    build: Callable[[], InnerLoop],
    show: Show,
    *,
    times: Times,
    clock: Callable[[], float] = time.perf_counter,
) -> InnerLoop:
    """The inner loop that `build` traces. Its first call runs one step, calls `show`, then runs the rest.

    `times` is told of tracing, of the first step and of all others.
    """
    start = clock()
    with times.during("compile"):
        loop = build()
    traced = clock() - start
    is_first = True

    def run(steps: int) -> Tally:
        nonlocal is_first
        if not is_first:
            return train(steps)
        is_first = False
        with times.during("compile"):
            tally = loop(1)
        times.trained(1, waited=tally.input_wait_s, first=True)
        show(traced, tally.seconds)
        return tally + train(steps - 1) if steps > 1 else tally

    def train(steps: int) -> Tally:
        with times.during("training"):
            tally = loop(steps)
        times.trained(steps, waited=tally.input_wait_s)
        return tally

    return run
