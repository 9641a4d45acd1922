"""What a run of the soak does besides training: it records each step's examples, and may kill itself.

Installed in the process of the run, before the command starts.
"""

import dataclasses
import hashlib
import os
import pathlib
import signal
from collections.abc import Callable, Sequence

import numpy as np
import tensorflow as tf

from pipeline.training.engine import saving
from pipeline.training.loop import outer
from pipeline.training.run import parts

# Where a save can be broken off: before or after one of the things that it does.
PHASES = tuple(
    f"{when} {name}"
    for name in ("tensor_files.save", "manifest.write", "directory.publish", "directory.remove")
    for when in ("before", "after")
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Plan:
    """When the run is sent a signal: in the middle of a save, when a step begins, or by its parent."""

    number: signal.Signals
    worker: int = 0  # which of the processes that train together gets it
    cpu_seconds: float | None = None  # the parent sends it when the run has worked so long
    step: int | None = None
    phase: str = ""  # one of PHASES
    call: int = 0  # at this call of the phase, from 0

    def __str__(self) -> str:
        to = f" to worker {self.worker}" if self.worker else ""
        return f"{self.number.name}{to} {self._when}"

    @property
    def _when(self) -> str:
        if self.cpu_seconds is not None:
            return f"after {self.cpu_seconds:.2f} CPU s"
        if self.step is not None:
            return f"in step {self.step}"
        return f"{self.phase}, save {self.call}"


def install(ledger: pathlib.Path, plan: Plan | None) -> None:
    """Records to the new file `ledger`, and carries out what of the plan the parent does not."""
    descriptor = os.open(ledger, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND)

    def record(step: np.ndarray, replica: np.ndarray, *columns: np.ndarray) -> None:
        ids = " ".join(_ids(columns))
        os.write(descriptor, f"{int(step)} {int(replica)} {ids}\n".encode())
        if plan and plan.step == int(step) and int(replica) == plan.worker:
            os.kill(os.getpid(), plan.number)

    _record_steps(record)
    _record_weights(ledger.with_name("weights.npz"))
    if plan and plan.phase:
        _send_in_save(plan)


def _ids(columns: Sequence[np.ndarray]) -> list[str]:
    """Of each example a digest of all that the model sees of it, and of its label."""
    rows = zip(*(column.reshape(len(column), -1) for column in columns), strict=True)
    return [
        hashlib.blake2b(b"".join(cell.tobytes() for cell in row), digest_size=8).hexdigest() for row in rows
    ]


def _record_steps(record: Callable[..., None]) -> None:
    inner_loop_of, inner_loop = parts.inner_loop_of, parts.inner_loop

    def recording_loop_of(run: parts.Run, *from_where: object, **settings: object) -> Callable:
        def recording(
            strategy: tf.distribute.Strategy, one_step: Callable, *rest: object, **more: object
        ) -> Callable:
            def recorded(inputs: dict, labels: tf.Tensor, *others: tf.Tensor) -> object:
                done = tf.convert_to_tensor(run.model.optimizer.iterations)
                context = tf.distribute.get_replica_context()
                replica = tf.convert_to_tensor(context.replica_id_in_sync_group)
                columns = [inputs[name] for name in sorted(inputs)]
                tf.numpy_function(record, [done, replica, *columns, labels], [])
                return one_step(inputs, labels, *others)

            return inner_loop(strategy, recorded, *rest, **more)

        parts.inner_loop = recording
        return inner_loop_of(run, *from_where, **settings)

    parts.inner_loop_of = recording_loop_of


def _record_weights(path: pathlib.Path) -> None:
    """Writes what this process has in its variables when its training is over."""
    run = outer.Session.run

    def recording(session: outer.Session, *arguments: object, **named: object) -> int:
        step = run(session, *arguments, **named)
        variables = [*session._model.variables, *session._model.optimizer.variables]
        np.savez(path, **{f"{number}": np.asarray(each) for number, each in enumerate(variables)})
        return step

    outer.Session.run = recording


def _send_in_save(plan: Plan) -> None:
    when, _, name = plan.phase.partition(" ")
    module, _, function = name.partition(".")
    real = getattr(getattr(saving, module), function)
    calls = iter(range(1_000_000))

    def sending(*arguments: object, **named: object) -> object:
        if next(calls) != plan.call:
            return real(*arguments, **named)
        if when == "after":
            real(*arguments, **named)
        os.kill(os.getpid(), plan.number)
        return real(*arguments, **named) if when == "before" else None

    setattr(getattr(saving, module), function, sending)
