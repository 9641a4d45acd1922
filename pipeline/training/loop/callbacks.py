"""Keras callbacks named by a config, and their state across a restart.

The loop calls them as `Model.fit` does with `steps_per_execution`: batch hooks fire once for each run of the
inner loop, with the number of its first and of its last step in the epoch. The host is not in charge in
between.
"""

import contextlib
import os
import pathlib
import warnings
from collections.abc import Iterator, Mapping, Sequence

import keras

from pipeline.data.errors import InputError
from pipeline.training.loop.callback_table import SURVIVORS
from pipeline.training.loop.csv_rows import CSVLogger

WORKDIR_MARK = "{workdir}"

Spec = Mapping[str, object]  # class_name, config: arguments by name


def build(
    specs: Sequence[Spec], *, workdir: pathlib.Path | None, logged: Sequence[str] = ()
) -> list[keras.callbacks.Callback]:
    """Makes the callbacks of specs that `callback_checks.check` has passed.

    Args:
      workdir: what `{workdir}` stands for; None in a worker that is not the chief. All workers run the
        callbacks, so that all stop at the same step, but only the chief writes files and prints.
      logged: numbers that are logged at the end of some epoch.
    """
    return [_build(spec, workdir, logged) for spec in specs]


def state(callbacks: Sequence[keras.callbacks.Callback]) -> list[dict]:
    """What callbacks need to go on after a kill: JSON that holds the best weights as arrays."""
    return [{"class_name": name, "kept": _state(name, callback)} for name, callback in _named(callbacks)]


def restore(callbacks: Sequence[keras.callbacks.Callback], saved: Sequence[Mapping]) -> None:
    """Puts `state` back, unless the list of callbacks has changed.

    Call it after `on_train_begin`, which resets some of them.
    """
    for (name, callback), entry in zip(_named(callbacks), saved, strict=False):
        if name == entry["class_name"] and name in SURVIVORS:
            SURVIVORS[name].restore(callback, _kept(name, callback, entry))


def require_monitored(callbacks: Sequence[keras.callbacks.Callback], logs: Mapping[str, float]) -> None:
    """Raises InputError where a callback waits for a number that a validation has not given."""
    for name, callback in _named(callbacks):
        monitor = getattr(callback, "monitor", None)
        if monitor and monitor not in logs:
            raise InputError(
                f"config.callbacks, monitor of {name}",
                received=f"'{monitor}', which could not be computed of this validation split",
                expected=f"one of {', '.join(sorted(logs))}",
                action="Monitor one of these, or validate on a split that holds every class.",
            )


@contextlib.contextmanager
def without_warnings() -> Iterator[None]:
    """Keras warns whenever a number is missing: here, after each epoch in which no validation is due."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*metric `.*` which is not available")
        yield


def _named(callbacks: Sequence[keras.callbacks.Callback]) -> list[tuple[str, keras.callbacks.Callback]]:
    return [(type(callback).__name__, callback) for callback in callbacks]


def _state(name: str, callback: keras.callbacks.Callback) -> dict:
    return SURVIVORS[name].state(callback) if name in SURVIVORS else {}


def _kept(name: str, callback: keras.callbacks.Callback, entry: Mapping) -> Mapping:
    if "kept" in entry:
        return entry["kept"]
    # Of an earlier version, which saved all numbers, those of the config too.
    ours = SURVIVORS[name].state(callback)
    return {key: value for key, value in entry["numbers"].items() if key in ours}


def _build(spec: Spec, workdir: pathlib.Path | None, logged: Sequence[str]) -> keras.callbacks.Callback:
    arguments = dict(spec.get("config") or {})
    if "filename" in arguments:
        arguments["filename"] = _file(arguments["filename"], workdir)
    if "verbose" in arguments and workdir is None:
        arguments["verbose"] = 0
    if spec["class_name"] == CSVLogger.__name__:
        return CSVLogger(**arguments, logged=logged)
    return getattr(keras.callbacks, spec["class_name"])(**arguments)


def _file(name: str, workdir: pathlib.Path | None) -> str:
    if workdir is None:
        return os.devnull
    return name.replace(WORKDIR_MARK, str(workdir))
