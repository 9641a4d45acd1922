"""Starts the processes of `--workers=N`, shows the output of their chief, and ends all when one fails."""

import contextlib
import json
import os
import pathlib
import select
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from typing import IO

from pipeline.base.cli import signals
from pipeline.base.cli.signals import Deferred, Interrupted
from pipeline.base.errors import EXIT_BAD_INPUT, InputError, answer

# --- The processes, each with a place in a cluster on free ports of this machine.


_MEMBER = "pipeline.training.launch.member"
_HERE = "localhost"
# Value of a key of TF_CONFIG that TensorFlow leaves to the program that starts a cluster: "cloud" on Vertex
# AI.
_ENVIRONMENT = "penstock --workers"
CLUSTER = "TF_CONFIG"


class Worker:
    """A worker process; number 0 is the chief, whose output the user sees.

    Attributes:
      address: HOST:PORT, at which the others reach it.
      errors: what it writes to stderr: the chief's is a pipe, the others' a file.
    """

    def __init__(self, number: int, address: str, process: subprocess.Popen, *, errors: IO[bytes]) -> None:
        self.number, self.address, self.errors = number, address, errors
        self._process = process
        self.pid = process.pid
        self.ended = os.pidfd_open(process.pid)  # readable when the process has ended

    @property
    def code(self) -> int | None:
        """Exit code, or minus the number of the signal that killed it; None while it runs."""
        return self._process.poll()

    def send(self, number: int) -> None:
        """Sends a signal, if the process still runs."""
        self._process.send_signal(number)

    def close(self) -> None:
        """Ends the process if it has not ended."""
        self._process.kill()
        self._process.wait()
        os.close(self.ended)
        self.errors.close()


def is_member() -> bool:
    """Returns whether a launcher has started this process."""
    with contextlib.suppress(ValueError, AttributeError):
        return json.loads(os.environ.get(CLUSTER, "")).get("environment") == _ENVIRONMENT
    return False


@contextlib.contextmanager
def running_workers(workers: int, command: Sequence[str]) -> Iterator[list[Worker]]:
    """Runs `command`, which begins with the module, in `workers` processes; none is left after the block."""
    addresses = _free_addresses(workers)
    alive, held = os.pipe()
    found: list[Worker] = []
    try:
        for number in range(workers):
            found.append(_start(number, addresses, command, alive=alive))
        yield found
    finally:
        for worker in found:
            worker.close()
        os.close(alive)
        os.close(held)


def _start(number: int, addresses: Sequence[str], command: Sequence[str], *, alive: int) -> Worker:
    is_chief = not number
    errors = None if is_chief else tempfile.TemporaryFile()  # noqa: SIM115 - Worker.close closes it
    process = subprocess.Popen(
        [sys.executable, "-m", _MEMBER, *command],
        env=os.environ | {CLUSTER: _cluster(addresses, number)},
        stdin=alive,
        stdout=None if is_chief else subprocess.DEVNULL,
        stderr=subprocess.PIPE if is_chief else errors,
        process_group=0,  # the launcher sends Ctrl-C, and only once
    )
    return Worker(number, addresses[number], process, errors=errors or process.stderr)


def _cluster(addresses: Sequence[str], number: int) -> str:
    return json.dumps(
        {
            "cluster": {"worker": list(addresses)},
            "task": {"type": "worker", "index": number},
            "environment": _ENVIRONMENT,
        }
    )


def _free_addresses(count: int) -> list[str]:
    # All ports are open at once, so that they differ.
    with contextlib.ExitStack() as open_ones:
        servers = [open_ones.enter_context(socket.create_server((_HERE, 0))) for _ in range(count)]
        return [f"{_HERE}:{server.getsockname()[1]}" for server in servers]


_SECONDS_BETWEEN_LOOKS = 0.2
_LOST = 138  # EXIT_LOST_WORKER of engine/cluster.py, which imports TensorFlow
# Time after which the remaining workers are killed. TensorFlow tells all of them about a failure within 11 s;
# after that the chief completes a checkpoint that it is writing.
_SECONDS_TO_END = 20.0
_SECONDS_AFTER_TOLD = 8.0
_ASKED_TO_STOP = {signals.exit_code(number): number for number in signals.SIGNALS}


def train(workers: int, command: Sequence[str]) -> int:
    """Trains in `workers` processes; returns 0, or the exit code of the first process that failed.

    A signal to this process, or to one of them, reaches all.

    Args:
      command: a module, as `python -m` takes it, and its command line.

    Raises:
      Interrupted: a signal ended the run.
    """
    with Deferred() as signals, running_workers(workers, command) as started:
        return Watch(started, came=signals.came).to_the_end()


class Watch:
    """Waits for the workers; the first that fails decides how all end.

    Args:
      came: function () → number of the signal that this process was sent, or 0.
      clock: function that gives seconds, from any start.
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
        self._sent = 0  # the signal that was sent to all workers
        self._failed: Worker | None = None
        self._deadline = float("inf")

    def to_the_end(self) -> int:
        """Waits until no worker runs any more; returns the exit code. Raises Interrupted after a signal."""
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
        """Waits until something happens, but not long; shows what the chief writes in the meantime."""
        watched = [worker.ended for worker in running] + self._errors.open_ones
        readable, _, _ = select.select(watched, [], [], _SECONDS_BETWEEN_LOOKS)
        if self._errors.descriptor in readable:
            self._errors.take()

    def _pass_on(self, number: int) -> None:
        if number and not self._sent:
            self._sent = number
            # SIGINT is sent whatever the signal was: SIGTERM is lost while TensorFlow waits for other workers
            # (2.21, measured).
            self._send(signal.SIGINT)

    def _note_failure(self) -> None:
        """Records the first worker that failed: the others fail because it did."""
        failed = [worker for worker in self._workers if worker.code]
        if failed and not self._failed:
            self._failed = min(failed, key=_rank)
            self._pass_on(_ASKED_TO_STOP.get(self._failed.code, 0))

    def _send(self, number: int) -> None:
        for worker in self._workers:
            worker.send(number)

    def _conclude(self) -> int:
        failed = self._failed
        if not self._chief.code or not failed:  # the chief writes what a run leaves
            return 0
        if self._sent and failed.code in (*_ASKED_TO_STOP, -signal.SIGINT, -signal.SIGKILL, _LOST):
            raise Interrupted(self._sent, self._errors.reason())
        return _tell(failed, self._errors.held if failed is self._chief else _content(failed))


def _rank(worker: Worker) -> tuple[int, int]:
    """Ranks workers that failed at the same time: the one with the lowest rank is the reason.

    Bad input and `kill -9` are never caused by another worker. An abort may follow from another worker's
    failure, because TensorFlow then ends badly.
    """
    ranks = {-signal.SIGKILL: 0, EXIT_BAD_INPUT: 1, 1: 2, _LOST: 4}
    return ranks.get(worker.code, 3), worker.number


def _content(worker: Worker) -> bytes:
    worker.errors.seek(0)
    return worker.errors.read()


def _tell(worker: Worker, written: bytes) -> int:
    """Shows why a worker failed; returns the exit code of the whole command."""
    os.write(sys.stderr.fileno(), written)
    if worker.code in (EXIT_BAD_INPUT, _LOST) and written:  # its last line says why
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


# --- The chief's stderr: shown at once, except the line about its end.


_ENDS = (b"error: ", b"interrupted: ", b"Traceback ")
_INTERRUPTED = "interrupted: "
_SIZE = 1 << 16


class ChiefErrors:
    """Relays a pipe. From the first line about an end, it holds everything back: another worker may be the
    reason.
    """

    def __init__(self, pipe: IO[bytes]) -> None:
        self.descriptor = pipe.fileno()
        os.set_blocking(self.descriptor, False)
        self._is_open = True
        self._unfinished = b""  # the start of a line
        self.held = b""

    @property
    def open_ones(self) -> list[int]:
        return [self.descriptor] if self._is_open else []

    def take(self) -> None:
        while self._is_open:
            try:
                part = os.read(self.descriptor, _SIZE)
            except BlockingIOError:
                return
            self._is_open = bool(part)
            *lines, self._unfinished = (self._unfinished + part).split(b"\n")
            for line in lines:
                self._relay(line + b"\n")
        self._relay(self._unfinished)
        self._unfinished = b""

    def reason(self) -> str:
        """Returns what the chief said about an interruption, for the command's last line; prints the rest."""
        lines = self.held.decode(errors="replace").splitlines()
        said = [line.removeprefix(_INTERRUPTED) for line in lines if line.startswith(_INTERRUPTED)]
        for line in lines:
            if not line.startswith(_INTERRUPTED):
                print(line, file=sys.stderr)
        return (
            said[-1] if said else "the workers were ended; the same command goes on from the last checkpoint"
        )

    def _relay(self, line: bytes) -> None:
        if self.held or line.startswith(_ENDS):
            self.held += line
        else:
            os.write(sys.stderr.fileno(), line)


# --- Checks `--workers=N` against the other flags and this machine.


_STRATEGIES = ("auto", "multi_worker")
# Exists on Linux with NVIDIA's driver.
_GPU = pathlib.Path("/dev/nvidia0")
# The memory of a process with TensorFlow and a small model (2.21: 0.7 to 0.8 GiB, measured).
_WORKER_BYTES = 700 << 20


def check_workers(workers: int, *, strategy: str, replicas: int, global_batch: int) -> None:
    """Raises InputError unless `workers` processes can train together here.

    Args:
      workers: 2 or more.
      strategy: value of --strategy.
      replicas: number of replicas of all workers.
    """
    flag = f"--workers={workers}"
    if os.environ.get(CLUSTER):
        raise InputError(
            flag,
            received=f"environment variable {CLUSTER} too, which names a cluster",
            expected="one of the two",
            action=f"Leave out --workers to be a worker of that cluster, or unset {CLUSTER}.",
        )
    if strategy not in _STRATEGIES:
        raise InputError(
            flag,
            received=f"--strategy={strategy} too, which is for one process",
            expected=f"--strategy={' or '.join(_STRATEGIES)}",
            action="Leave out one of the two.",
        )
    if _GPU.exists():
        raise InputError(
            flag,
            received="a machine with GPUs, of which each worker would take all",
            expected="a machine without GPUs, to try several workers on its processor",
            action="Use --strategy=mirrored here: one process feeds all GPUs of a machine.",
        )
    if workers > (most := _memory() // _WORKER_BYTES):
        raise InputError(
            flag,
            received=f"{workers:,} processes of {_WORKER_BYTES >> 20} MiB or more each",
            expected=f"at most {most}, for which this machine has memory",
            action="Start fewer.",
        )
    if global_batch < 1 or global_batch % replicas:
        raise InputError(
            "--config.global_batch",
            received=global_batch,
            expected=f"a positive multiple of the {replicas} replicas",
            action=f"Set --config.global_batch={max(1, round(global_batch / replicas)) * replicas}.",
        )


def _memory() -> int:
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
