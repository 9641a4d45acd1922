"""Asks a file system about many files: several at a time where it keeps each answer waiting, else in turn.

Over the network, or on a disk that has not read its directories yet, every answer is waited for. What is in
memory is there at once: threads would only pass Python's lock around, for twice the time of the processor.
"""

import concurrent.futures
import math
import resource
import time
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

_Item, _Result = TypeVar("_Item"), TypeVar("_Result")

_IN_A_TURN = 64  # files that are asked about one after the other
_AT_ONCE = 8  # turns
_FIRST_TOGETHER = 32  # turns that overlap, before it is seen whether answers are still waited for
_WAITED_FOR = 1 / 8  # of the files of a turn: from there on, turns overlap
_WAITING = 1 / 2  # and of its time
_THREAD = getattr(resource, "RUSAGE_THREAD", None)  # Linux has it


def in_turns(ask: Callable[[Sequence[_Item]], _Result], items: Sequence[_Item]) -> Iterator[_Result]:
    """`ask` of 64 items after the other, in order; one that raises ends it."""
    turns = [items[first : first + _IN_A_TURN] for first in range(0, len(items), _IN_A_TURN)]
    done, together = 0, _FIRST_TOGETHER
    while done < len(turns):
        start, before, worked = time.perf_counter(), _waits(), time.thread_time()
        result = ask(turns[done])
        taken, worked = time.perf_counter() - start, time.thread_time() - worked
        # Time alone does not tell: where other processes have the processor, it passes too.
        waits = math.inf if _THREAD is None else _waits() - before
        is_waited_for = waits > _WAITED_FOR * _IN_A_TURN and taken - worked > taken * _WAITING
        yield result
        done += 1
        if is_waited_for:
            with concurrent.futures.ThreadPoolExecutor(_AT_ONCE) as pool:
                yield from pool.map(ask, turns[done : done + together])
            # Then one is tried alone again: what a disk has read ahead is no longer waited for.
            done, together = done + together, 2 * together


def _waits() -> int:
    """How often this thread has waited for something."""
    return resource.getrusage(_THREAD).ru_nvcsw if _THREAD is not None else 0
