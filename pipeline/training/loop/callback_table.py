"""The Keras callbacks that survive a kill: the arguments that they take, and what a checkpoint holds of each.

Any other class is refused before training. To add one, add it here; the tests run over this table.
"""

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence

import keras

from pipeline.training.loop import csv_rows

Wrong = str  # what was expected in place of a value; empty: the value is right
Arguments = Mapping[str, Callable[[object], Wrong]]


def _whole(value: object) -> Wrong:
    is_right = isinstance(value, int) and not isinstance(value, bool) and value >= 0
    return "" if is_right else "a whole number, 0 or more"


def _number(value: object) -> Wrong:
    is_right = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    return "" if is_right else "a number"


def _not_negative(value: object) -> Wrong:
    return "" if not _number(value) and value >= 0 else "a number, 0 or more"


def _number_or_none(value: object) -> Wrong:
    return "" if value is None or not _number(value) else "a number or None"


def _fraction(value: object) -> Wrong:
    return "" if not _number(value) and 0 < value < 1 else "a number between 0 and 1"


def _bool(value: object) -> Wrong:
    return "" if isinstance(value, bool) else "True or False"


def _verbose(value: object) -> Wrong:
    return "" if isinstance(value, bool) else _whole(value)


def _text(value: object) -> Wrong:
    return "" if isinstance(value, str) and value else "a string"


def _mode(value: object) -> Wrong:
    return "" if value in ("auto", "min", "max") else "'auto', 'min' or 'max'"


def _separator(value: object) -> Wrong:
    is_right = isinstance(value, str) and len(value) == 1 and value not in '"\r\n'
    return "" if is_right else "one character, neither a quotation mark nor a line break"


def _not_append(value: object) -> Wrong:
    return "" if value is False else "False: the run itself goes on with the file that it began"


def _of_attributes(*names: str) -> Callable[[keras.callbacks.Callback], dict]:
    return lambda callback: {name: getattr(callback, name) for name in names}


def _set_attributes(callback: keras.callbacks.Callback, kept: Mapping) -> None:
    vars(callback).update(kept)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Survivor:
    """How a class of callbacks is made, and how it goes on after a kill.

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
        # Not min_delta, whose sign Keras turns in the first epoch of each process (3.15).
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
        state=csv_rows.state,
        restore=csv_rows.restore,
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
