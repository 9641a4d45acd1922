"""What a process of `kill` does besides its work: it records what it trains on, and may send itself a signal.

Installed in a fork, before its work begins. A place to die is "before MODULE:NAME" or "after MODULE:NAME",
where NAME leads from the module to a function, by attributes and by keys of a dict.
"""

import hashlib
import importlib
import os
import pathlib
from collections.abc import Callable, MutableMapping

import numpy as np

from tests.soak.case import Moment


def send_at(moment: Moment) -> None:
    """Sends this process the signal of the moment, at that call of its place."""
    when, _, name = moment.place.partition(" ")
    owner, last, real = found(name)
    calls = iter(range(1_000_000))

    def sending(*arguments: object, **named: object) -> object:
        if next(calls) != moment.call:
            return real(*arguments, **named)
        done = real(*arguments, **named) if when == "after" else None
        os.kill(os.getpid(), moment.number)
        return done if when == "after" else real(*arguments, **named)

    if isinstance(owner, MutableMapping):
        owner[last] = sending
    else:
        setattr(owner, last, sending)


def found(name: str) -> tuple[object, str, Callable]:
    """What owns the function of this name, its last name, and the function."""
    module, _, path = name.partition(":")
    *parents, last = path.split(".")
    owner: object = importlib.import_module(module)
    for part in parents:
        owner = _child(owner, part)
    return owner, last, _child(owner, last)


def _child(owner: object, name: str) -> object:
    return owner[name] if isinstance(owner, MutableMapping) else getattr(owner, name)


def record_steps(path: pathlib.Path, moment: Moment | None = None) -> None:
    """Writes a line a step and replica to a new file: the examples. At `call` of place "step" it may die.

    A kill leaves the lines readable, as each is one write.
    """
    from pipeline.training.run import parts
    from tests.shared.recorded import Batch, recording

    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND)

    def keep(step: int, replica: int, batch: Batch) -> None:
        os.write(descriptor, f"{step} {replica} {' '.join(ids_of(*batch))}\n".encode())
        if moment and moment.step == step:
            os.kill(os.getpid(), moment.number)

    parts.train_step = recording(parts.train_step, keep)


def ids_of(inputs: object, targets: object) -> list[str]:
    """For each example a digest of all that the model sees of it, and of its targets."""
    import tensorflow as tf

    columns = [np.asarray(inputs[name]) for name in sorted(inputs)]
    columns += [np.asarray(each) for each in tf.nest.flatten(targets)]
    rows = zip(*(column.reshape(len(column), -1) for column in columns), strict=True)
    return [
        hashlib.blake2b(b"".join(cell.tobytes() for cell in row), digest_size=8).hexdigest() for row in rows
    ]


def record_weights(path: pathlib.Path) -> None:
    """Writes what this process has in its variables when its training is over."""
    from pipeline.training.loop import outer

    run = outer.Session.run

    def recording(session: outer.Session, *arguments: object, **named: object) -> int:
        step = run(session, *arguments, **named)
        variables = [*session._model.variables, *session._model.optimizer.variables]
        np.savez(path, **{f"{number}": np.asarray(each) for number, each in enumerate(variables)})
        return step

    outer.Session.run = recording
