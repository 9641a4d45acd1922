"""What the steps of a process received, in a file that a kill leaves readable."""

import os
import pathlib
import pickle
import signal
from collections.abc import Iterator, Sequence

from pipeline.training.run import parts
from tests.pipeline.training.replaying.recorded import Batch, Ledger, global_batch, recording


def record(file: pathlib.Path, *, killed_in: int | None) -> None:
    """From now on this process writes what its steps receive to the new `file`.

    Args:
      killed_in: the step in which it kills itself, before that step computes; None: it lives.
    """
    descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND)

    def keep(step: int, replica: int, batch: Batch) -> None:
        os.write(descriptor, pickle.dumps((step, replica, batch)))
        if step == killed_in:
            os.kill(os.getpid(), signal.SIGKILL)

    parts.train_step = recording(parts.train_step, keep)


def received(files: Sequence[pathlib.Path], *, replicas: int) -> dict[int, Batch]:
    """By step, what all replicas of some processes received; without steps that not all of them began."""
    ledger: Ledger = {}
    for file in files:
        for step, replica, batch in _read(file):
            ledger.setdefault(step, {})[replica] = batch
    return {step: global_batch(found) for step, found in ledger.items() if len(found) == replicas}


def _read(file: pathlib.Path) -> Iterator[tuple[int, int, Batch]]:
    with file.open("rb") as stream:
        while True:
            try:
                yield pickle.load(stream)
            except (EOFError, pickle.UnpicklingError):  # the kill came in the middle of a write
                return
