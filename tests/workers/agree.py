"""Two processes that go on from other steps: they see other checkpoints."""

import pathlib
from collections.abc import Iterator, Sequence

from tests.workers import pair

_TOLD = (
    "--workdir: received other checkpoints than on other workers (worker 0 step 7, worker 1 step 9); "
    "expected a directory that all workers see, so that all go on from the same step. "
    "Put it on a file system that all share, or copy worker 0's directory to the others."
)


def check(dataset: pathlib.Path, folder: pathlib.Path, *, counts: Sequence[int]) -> Iterator[str]:
    """Whether equal steps pass, and others are refused by both."""
    del dataset, counts
    return pair.faults("agree", _compare, folder, expected=[f"7; {_TOLD}"] * 2)


def _compare(number: int) -> None:
    from pipeline.base.errors import InputError
    from pipeline.training.engine import strategy as strategy_lib

    strategy = strategy_lib.create("multi_worker")
    same = strategy_lib.same_step(strategy, 7)
    try:
        strategy_lib.same_step(strategy, 7 + 2 * number)
    except InputError as error:
        print(f"{same}; {error}", flush=True)
    strategy_lib.leave_together(strategy)
