"""Keras callbacks of a user's own, named as `package.module:Class` in `config.callbacks`.

Only the chief of a cluster runs one. Each hook gets what `Model.fit` gives it with `steps_per_execution`: a
batch hook fires once for each run of `steps_per_loop` steps, with the number of its first step in the epoch
(`on_train_batch_begin`) and of its last one (`on_train_batch_end`), and with the epoch's averages so far.
"""

import traceback
from collections.abc import Callable, Mapping

import keras

from pipeline.base.errors import InputError
from pipeline.base.own_code import line_of, one_line
from pipeline.training.state import checkpoints

# Hooks of batches in general are among them: the Keras class calls them from those of training batches.
_HOOKS = tuple(
    f"on_{what}_{when}"
    for what in ("train", "epoch", "train_batch", "test", "test_batch")
    for when in ("begin", "end")
)
_STATE = ("get_state", "set_state")


def is_own(class_name: object) -> bool:
    """Returns whether a name is a name of code, not of a Keras class."""
    return isinstance(class_name, str) and ":" in class_name


def keeps_state(kind: type) -> bool:
    """Returns whether the state of such a callback survives a kill.

    It does if the class has `get_state()`, which gives a dict of JSON that may hold NumPy arrays, and
    `set_state(state)`, which is called after `on_train_begin` of the process that continues.
    """
    return all(callable(getattr(kind, name, None)) for name in _STATE)


class OwnCallback(keras.callbacks.Callback):
    """Passes hooks on to a callback; if one fails, raises an error that names file and line.

    Args:
      class_name: the name in the config.
      callback: the callback; None in a process that is not the chief, where nothing is called.
    """

    def __init__(self, class_name: str, callback: keras.callbacks.Callback | None) -> None:
        super().__init__()
        self.class_name = class_name
        self._callback = callback

    def set_model(self, model: keras.Model) -> None:
        super().set_model(model)
        self._call("set_model", model)

    def set_params(self, params: Mapping) -> None:
        super().set_params(params)
        self._call("set_params", params)

    def state(self) -> dict:
        """The callback's state for a checkpoint; raises InputError where a checkpoint cannot hold it."""
        found = self._call("get_state") if self._is_exact else {}
        try:
            checkpoints.pack_nested(found)
        except (TypeError, ValueError) as error:
            raise InputError(
                f"config.callbacks, {self.class_name}, get_state",
                received=" ".join(str(error).split()),
                expected="a dict of numbers, texts, lists, dicts and NumPy arrays",
                action="Have it return such a dict.",
            ) from None
        return found

    def restore(self, kept: Mapping) -> None:
        if self._is_exact and kept:
            self._call("set_state", kept)

    @property
    def _is_exact(self) -> bool:
        return keeps_state(type(self._callback))

    def _call(self, hook: str, *arguments: object, **named: object) -> object:
        if self._callback is None:
            return None
        try:
            return getattr(self._callback, hook)(*arguments, **named)
        except (InputError, MemoryError):
            raise
        except (Exception, SystemExit) as error:
            raise self._failed(hook, error) from error

    def _failed(self, hook: str, error: BaseException) -> InputError:
        frames = traceback.extract_tb(error.__traceback__)[1:]  # without the frame of `_call` itself
        last = (
            f"{frames[-1].filename}, line {frames[-1].lineno}" if frames else f"the signature of its {hook}"
        )
        where = line_of(self._callback, error) or last
        stop = (
            " To end the run, set self.model.stop_training = True." if isinstance(error, SystemExit) else ""
        )
        return InputError(
            f"config.callbacks, {self.class_name}, {hook}",
            received=f"{type(error).__name__}: {one_line(error)}",
            expected="a hook that returns",
            action=f"Correct {where}; the same command goes on from the last checkpoint.{stop}",
        )


def _passed_on(hook: str) -> Callable[..., None]:
    def call(self: OwnCallback, *arguments: object, **named: object) -> None:
        self._call(hook, *arguments, **named)

    return call


# The hooks are set on the class, because Keras looks there to see whether batch hooks are overridden.
for _hook in _HOOKS:
    setattr(OwnCallback, _hook, _passed_on(_hook))
