"""Keras callbacks named by a config, and their state across a restart.

The loop calls them as `Model.fit` does with `steps_per_execution`: batch hooks fire once for each run of the
inner loop, with the number of its first and of its last step in the epoch. Between them, the host has no
control.
"""

import contextlib
import dataclasses
import math
import os
import pathlib
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence

import keras

from pipeline.base import files
from pipeline.base.errors import InputError
from pipeline.training.loop.own_callbacks import OwnCallback, is_own

WORKDIR_MARK = "{workdir}"

Spec = Mapping[str, object]  # class_name, config: arguments by name
MakeOwn = Callable[[Spec], keras.callbacks.Callback]


def build(
    specs: Sequence[Spec],
    *,
    workdir: pathlib.Path | None,
    logged: Sequence[str] = (),
    make_own: MakeOwn | None = None,
) -> list[keras.callbacks.Callback]:
    """Makes the callbacks of specs that `callback_checks.check` has passed.

    Args:
      workdir: the value of `{workdir}`; None in a worker that is not the chief. All workers run Keras's
        callbacks, so that all stop at the same step, but only the chief writes files and prints.
      logged: names of numbers that are logged at the end of some epoch.
      make_own: makes a callback of the user's own; only the chief calls it.
    """
    is_chief = workdir is not None
    return [
        OwnCallback(spec["class_name"], make_own(spec) if is_chief else None)
        if is_own(spec["class_name"])
        else _build(spec, workdir, logged)
        for spec in specs
    ]


def state(callbacks: Sequence[keras.callbacks.Callback]) -> list[dict]:
    """Returns the state that callbacks need after a kill: JSON that holds the best weights as arrays."""
    return [{"class_name": name, "kept": _state(name, callback)} for name, callback in _named(callbacks)]


def restore(callbacks: Sequence[keras.callbacks.Callback], saved: Sequence[Mapping]) -> None:
    """Puts `state` back, unless the list of callbacks has changed.

    Call it after `on_train_begin`, which resets some of them.
    """
    for (name, callback), entry in zip(_named(callbacks), saved, strict=False):
        if name != entry["class_name"]:
            continue
        if isinstance(callback, OwnCallback):
            callback.restore(entry["kept"])
        elif name in SURVIVORS:
            SURVIVORS[name].restore(callback, entry["kept"])


def require_monitored(callbacks: Sequence[keras.callbacks.Callback], logs: Mapping[str, float]) -> None:
    """Raises InputError where a callback waits for a number that a validation has not given."""
    for name, callback in _named(callbacks):
        monitor = getattr(callback, "monitor", None)
        if monitor and monitor not in logs:
            raise InputError(
                f"config.callbacks, monitor of {name}",
                received=f"'{monitor}', which could not be computed on this validation split",
                expected=f"one of {', '.join(sorted(logs))}",
                action="Monitor one of these, or validate on a split that holds every class.",
            )


def why_stopped(callbacks: Sequence[keras.callbacks.Callback]) -> str:
    """Says which number did not improve, for how long, and when it was the best; empty unless an
    EarlyStopping has ended the run.
    """
    for callback in callbacks:
        if isinstance(callback, keras.callbacks.EarlyStopping) and callback.stopped_epoch:
            unit = "evaluation" if callback.monitor.startswith("val_") else "epoch"
            times = f"{callback.patience} {unit}{'s' * (callback.patience != 1)}"
            best = f"the best was that of epoch {callback.best_epoch + 1:,}"
            stopped = f"stopped at epoch {callback.stopped_epoch + 1:,}"
            return f"{stopped}: {callback.monitor} was not better for {times}; {best}"
    return ""


def may_restore_weights(callbacks: Sequence[keras.callbacks.Callback]) -> bool:
    """Returns whether a callback may give the model other weights at the end of training."""
    stopping = keras.callbacks.EarlyStopping
    return any(not isinstance(each, stopping) or each.restore_best_weights for each in callbacks)


@contextlib.contextmanager
def without_warnings() -> Iterator[None]:
    """Hides warnings in the block: Keras warns whenever a number is missing, so after each epoch without a
    validation.
    """
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*metric `.*` which is not available")
        yield


def _named(callbacks: Sequence[keras.callbacks.Callback]) -> list[tuple[str, keras.callbacks.Callback]]:
    return [(getattr(each, "class_name", type(each).__name__), each) for each in callbacks]


def _state(name: str, callback: keras.callbacks.Callback) -> dict:
    if isinstance(callback, OwnCallback):
        return callback.state()
    return SURVIVORS[name].state(callback) if name in SURVIVORS else {}


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


# --- A CSVLogger that has all columns, and each row only once after a restart.


class CSVLogger(keras.callbacks.CSVLogger):
    """The Keras class, with a column for each number that any epoch logs.

    Keras (3.15) takes the columns from the first epoch. If that epoch has no validation, Keras repeats the
    training columns as `val_…`. So a number that only the validation has, such as `val_auc`, would be left
    out.
    """

    def __init__(self, filename: str, *, logged: Sequence[str] = (), **arguments) -> None:
        super().__init__(filename, **arguments)
        self._logged = logged

    def on_epoch_end(self, epoch: int, logs: dict | None = None) -> None:
        self.keys = self.keys or sorted({*self._logged, *(logs or {})})
        super().on_epoch_end(epoch, logs)


def csv_state(callback: keras.callbacks.CSVLogger) -> dict:
    """The columns, and the text of the file, a line for each epoch, in case the file is deleted."""
    path = pathlib.Path(callback.filename)
    text = path.read_bytes().decode() if path.is_file() else ""
    return {"keys": callback.keys, "text": text}


def restore_csv(callback: keras.callbacks.CSVLogger, kept: Mapping) -> None:
    """Writes the file as it was, and continues after its last line."""
    path = pathlib.Path(callback.filename)
    callback.csv_file.close()
    if path.is_file():
        files.write_bytes(path, kept["text"].encode())
    callback.csv_file = path.open("a")
    callback.writer, callback.keys = None, kept["keys"]
    callback.append_header = not kept["text"]


# --- The Keras callbacks that survive a kill: their arguments, and the state in a checkpoint.
#
# Any other class is refused before training. To add one, add it here; the tests run over this table.


Wrong = str  # what is expected in place of a wrong value; empty: the value is right
Arguments = Mapping[str, Callable[[object], Wrong]]


def _rule(expected: str, is_right: Callable[[object], bool]) -> Callable[[object], Wrong]:
    return lambda value: "" if is_right(value) else expected


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _is_whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _is_separator(value: object) -> bool:
    return isinstance(value, str) and len(value) == 1 and value not in '"\r\n'


_whole = _rule("a whole number, 0 or more", _is_whole)
_number = _rule("a number", _is_number)
_not_negative = _rule("a number, 0 or more", lambda value: _is_number(value) and value >= 0)
_number_or_none = _rule("a number or None", lambda value: value is None or _is_number(value))
_fraction = _rule("a number between 0 and 1", lambda value: _is_number(value) and 0 < value < 1)
_bool = _rule("True or False", lambda value: isinstance(value, bool))
_verbose = _rule("a whole number, 0 or more", lambda value: isinstance(value, bool) or _is_whole(value))
_text = _rule("a string", lambda value: isinstance(value, str) and bool(value))
_mode = _rule("'auto', 'min' or 'max'", lambda value: value in ("auto", "min", "max"))
_separator = _rule("one character, neither a quotation mark nor a line break", _is_separator)
_not_append = _rule("False: the run itself goes on with the file that it began", lambda value: value is False)


def _of_attributes(*names: str) -> Callable[[keras.callbacks.Callback], dict]:
    return lambda callback: {name: getattr(callback, name) for name in names}


def _set_attributes(callback: keras.callbacks.Callback, kept: Mapping) -> None:
    vars(callback).update(kept)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Survivor:
    """Makes a class of callbacks, and saves and restores its state.

    `state` gives JSON that may hold arrays; `restore` puts it back, after `on_train_begin`.
    """

    arguments: Arguments
    needed: Sequence[str] = ()  # arguments without a default
    state: Callable[[keras.callbacks.Callback], dict] = lambda callback: {}
    restore: Callable[[keras.callbacks.Callback, Mapping], None] = _set_attributes


_MONITOR: Arguments = {
    "monitor": _text,
    "mode": _mode,
    "min_delta": _number,
    "patience": _whole,
    "verbose": _verbose,
}

SURVIVORS: Mapping[str, Survivor] = {
    "EarlyStopping": Survivor(
        arguments=_MONITOR
        | {"baseline": _number_or_none, "restore_best_weights": _bool, "start_from_epoch": _whole},
        # min_delta is left out: Keras (3.15) turns its sign in the first epoch of each process.
        state=_of_attributes("wait", "stopped_epoch", "best", "best_epoch", "best_weights"),
    ),
    # The learning rate that it sets is a variable of the optimizer, which the checkpoint holds.
    "ReduceLROnPlateau": Survivor(
        arguments=_MONITOR | {"factor": _fraction, "cooldown": _whole, "min_lr": _not_negative},
        state=_of_attributes("wait", "best", "cooldown_counter"),
    ),
    "CSVLogger": Survivor(
        arguments={"filename": _text, "separator": _separator, "append": _not_append},
        needed=("filename",),
        state=csv_state,
        restore=restore_csv,
    ),
    "TerminateOnNaN": Survivor(arguments={"raise_error": _bool}),
}

_NO_FUNCTIONS = "run.json cannot hold a function"
REFUSED: Mapping[str, str] = {
    "BackupAndRestore": "The run continues from its own checkpoints; leave this callback out.",
    "History": "history.jsonl holds the curves anyway; leave this callback out.",
    "LambdaCallback": f"{_NO_FUNCTIONS}; leave this callback out.",
    "LearningRateScheduler": f"{_NO_FUNCTIONS}; choose a --config.optimizer.schedule.",
    "ModelCheckpoint": "The run saves itself: see --config.train.checkpoint_every_steps.",
    "OrbaxCheckpoint": "The run saves itself: see --config.train.checkpoint_every_steps.",
    "ProgbarLogger": "Progress is shown anyway; leave this callback out.",
    "RemoteMonitor": "What it sends twice after a kill cannot be taken back; read history.jsonl instead.",
    "SwapEMAWeights": "Averages of the weights are a matter of --config.optimizer; leave this callback out.",
    "TensorBoard": "Summaries are written to <workdir>/summaries anyway; leave this callback out.",
}
