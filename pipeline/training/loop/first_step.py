"""Runs the first step of a process alone, and tells how long it took: that step compiles."""

import time
from collections.abc import Callable

from pipeline.training.loop.outer import InnerLoop
from pipeline.training.loop.step_sums import Tally

Show = Callable[[float, float], None]  # seconds to trace the graph, seconds of the first step


def telling(
    build: Callable[[], InnerLoop], show: Show, *, clock: Callable[[], float] = time.perf_counter
) -> InnerLoop:
    """The inner loop that `build` traces. Its first call runs one step, calls `show`, then runs the rest."""
    start = clock()
    loop = build()
    traced = clock() - start
    is_first = True

    def run(steps: int) -> Tally:
        nonlocal is_first
        if not is_first:
            return loop(steps)
        is_first = False
        tally = loop(1)
        show(traced, tally.seconds)
        return tally + loop(steps - 1) if steps > 1 else tally

    return run
