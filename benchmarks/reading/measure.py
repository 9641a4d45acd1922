"""One run of one reader: what an example costs, or whether an epoch holds every example once.

python -m benchmarks.reading.measure READER WORKLOAD DIRECTORY SECONDS, in the reader's environment, prints
one line of JSON: its cost and its form, or what one epoch held if SECONDS is 0. Standard library and numpy
only: peers have no more in common.
"""

import dataclasses
import importlib
import itertools
import json
import os
import pathlib
import sys
import time
from collections.abc import Callable, Iterator

import numpy as np

from benchmarks.process_tree import cpu_seconds
from benchmarks.reading.epoch import Ledger, compare, expected, identities

Reader = Callable[[pathlib.Path], Iterator[tuple]]

_WARM_UP_BATCHES = 4
_CALL_SHARE = 0.05  # of the time to measure, which one call should take at least
_MEASURED_BATCHES = 16  # at least: workers are in the midst of one or two as the measurement begins and ends


@dataclasses.dataclass(frozen=True, kw_only=True)
class Cost:
    """The cost of the reader's whole process tree after its start, which takes `first_batch_s`."""

    cpu_us_per_example: float
    examples_per_s: float
    first_batch_s: float


def reader_of(name: str) -> Reader:
    """`module:function` in this package."""
    module, _, function = name.partition(":")
    return getattr(importlib.import_module(f"benchmarks.{module}"), function)


def cost(reader: Reader, directory: pathlib.Path, seconds: float) -> Cost:
    """Reads for `seconds` of wall time or longer, after half as long to warm up."""
    started = time.perf_counter()
    batches = reader(directory)
    next(batches)
    first_batch = time.perf_counter() - started
    _read_for(batches, seconds / 2, least=_WARM_UP_BATCHES)
    before, started = cpu_seconds(os.getpid()), time.perf_counter()
    examples = _read_for(batches, seconds, least=_MEASURED_BATCHES)
    used, elapsed = cpu_seconds(os.getpid()) - before, time.perf_counter() - started
    return Cost(
        cpu_us_per_example=used / examples * 1e6,
        examples_per_s=examples / elapsed,
        first_batch_s=first_batch,
    )


def epoch(reader: Reader, workload: str, directory: pathlib.Path) -> Ledger:
    """Reads one epoch from the start."""
    wanted = expected(workload, directory)
    seen, examples = [], 0
    for batch in reader(directory):
        seen.append(identities(workload, batch))
        examples += len(seen[-1])
        if examples >= len(wanted):
            break
    return compare(wanted, np.concatenate(seen))


def _read_for(batches: Iterator[tuple], seconds: float, *, least: int) -> int:
    """The examples read, in `least` batches or more."""
    started, examples = time.perf_counter(), 0
    at_once, read = least, 0
    while read < least or time.perf_counter() - started < seconds:
        before = time.perf_counter()
        examples += _step_over(batches, at_once)
        read += at_once
        if time.perf_counter() - before < seconds * _CALL_SHARE:
            at_once *= 2
    return examples


def _step_over(batches: Iterator[tuple], count: int) -> int:
    """Reads `count` batches, in one call where the reader can; returns the examples that they held."""
    if hasattr(batches, "step_over"):
        return batches.step_over(count)
    return sum(len(batch[0]) for batch in itertools.islice(batches, count))


def main(name: str, workload: str, directory: pathlib.Path, seconds: float) -> None:
    reader = reader_of(name)
    # A reader's libraries print on stdout, too.
    output, sys.stdout = sys.stdout, sys.stderr
    found = cost(reader, directory, seconds) if seconds else epoch(reader, workload, directory)
    form = reader.__doc__.splitlines()[0]
    print(json.dumps({**dataclasses.asdict(found), "form": form}), file=output, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:3], pathlib.Path(sys.argv[3]), float(sys.argv[4]))
