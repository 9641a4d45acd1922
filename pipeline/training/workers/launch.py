"""Starts the processes of `--workers=N`, shows what their chief shows, and ends all when one fails."""

import os
import select
import signal
import sys
import time
from collections.abc import Callable, Sequence

from pipeline.data.commands import interrupt
from pipeline.data.commands.deferred import Deferred, Interrupted
from pipeline.data.errors import EXIT_BAD_INPUT, InputError, answer
from pipeline.training.workers import processes
from pipeline.training.workers.chief_errors import ChiefErrors
from pipeline.training.workers.processes import Worker

_SECONDS_BETWEEN_LOOKS = 0.2
_LOST = 138  # of engine/lost_worker.py, which imports TensorFlow
# Until those that are left are killed. TensorFlow tells them of a failure within 11 s, and all at once; then
# a checkpoint that the chief is writing becomes whole.
_SECONDS_TO_END = 20.0
_SECONDS_AFTER_TOLD = 8.0
_ASKED_TO_STOP = {interrupt.exit_code(number): number for number in interrupt.SIGNALS}


def train(workers: int, command: Sequence[str]) -> int:
    """Trains in so many processes; returns the exit code: that of the first that failed, or 0.

    A signal to this process, or to one of them, reaches all.

    Args:
      command: a module, as behind `python -m`, and its command line.

    Raises:
      Interrupted: a signal ended the run.
    """
    with Deferred() as signals, processes.started(workers, command) as started:
        return Watch(started, came=signals.came).to_the_end()


class Watch:
    """Waits for the workers; the first that fails decides how all end.

    Args:
      came: function () → number of the signal that this process was sent, or 0.
      clock: seconds, from any start.
    """

    def __init__(
        self,
        workers: Sequence[Worker],
        *,
        came: Callable[[], int] = lambda: 0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._workers, self._came, self._clock = workers, came, clock
        self._chief = workers[0]
        self._errors = ChiefErrors(self._chief.errors)
        self._sent = 0  # the signal that all were sent
        self._failed: Worker | None = None
        self._deadline = float("inf")

    def to_the_end(self) -> int:
        """Returns when no worker runs any more; the exit code. Raises Interrupted after a signal."""
        while running := [worker for worker in self._workers if worker.code is None]:
            self._look(running)
            self._pass_on(self._came())
            self._note_failure()
            if self._chief.code is not None or self._failed:
                is_told = self._failed and self._failed.code == _LOST
                seconds = _SECONDS_AFTER_TOLD if is_told else _SECONDS_TO_END
                self._deadline = min(self._deadline, self._clock() + seconds)
            if self._clock() > self._deadline:
                self._send(signal.SIGKILL)
        self._errors.take()
        self._note_failure()
        return self._conclude()

    def _look(self, running: Sequence[Worker]) -> None:
        """Waits until something happens, but not long; shows what the chief writes meanwhile."""
        watched = [worker.ended for worker in running] + self._errors.open_ones
        readable, _, _ = select.select(watched, [], [], _SECONDS_BETWEEN_LOOKS)
        if self._errors.descriptor in readable:
            self._errors.take()

    def _pass_on(self, number: int) -> None:
        if number and not self._sent:
            self._sent = number
            # Whatever it was: a SIGTERM is lost while TensorFlow waits for the others (2.21, measured).
            self._send(signal.SIGINT)

    def _note_failure(self) -> None:
        """Keeps the first that failed: the others fail because it did."""
        failed = [worker for worker in self._workers if worker.code]
        if failed and not self._failed:
            self._failed = min(failed, key=_rank)
            self._pass_on(_ASKED_TO_STOP.get(self._failed.code, 0))

    def _send(self, number: int) -> None:
        for worker in self._workers:
            worker.send(number)

    def _conclude(self) -> int:
        failed = self._failed
        if not self._chief.code or not failed:  # what a run leaves, its chief writes
            return 0
        if self._sent and failed.code in (*_ASKED_TO_STOP, -signal.SIGINT, -signal.SIGKILL, _LOST):
            raise Interrupted(self._sent, self._errors.told())
        return _tell(failed, self._errors.held if failed is self._chief else _content(failed))


def _rank(worker: Worker) -> tuple[int, int]:
    """Of workers that were seen to have failed at once, the one with the least is the reason.

    Bad input and `kill -9` are nobody's doing. An abort may come after another one's traceback, as TensorFlow
    ends badly then.
    """
    told = {-signal.SIGKILL: 0, EXIT_BAD_INPUT: 1, 1: 2, _LOST: 4}
    return told.get(worker.code, 3), worker.number


def _content(worker: Worker) -> bytes:
    worker.errors.seek(0)
    return worker.errors.read()


def _tell(worker: Worker, written: bytes) -> int:
    """Shows why a worker failed; returns the exit code of all."""
    os.write(sys.stderr.fileno(), written)
    if worker.code in (EXIT_BAD_INPUT, _LOST) and written:  # that is a line
        return worker.code
    how = signal.Signals(-worker.code).name if worker.code < 0 else f"exit code {worker.code}"
    answer(
        InputError(
            f"worker {worker.number} (process {worker.pid}, {worker.address})",
            received=how,
            expected="a process that trains to the end",
            action="The others were ended; the same command goes on from the last checkpoint.",
        )
    )
    return 128 - worker.code if worker.code < 0 else worker.code
