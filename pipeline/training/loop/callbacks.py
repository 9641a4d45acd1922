"""Keras callbacks named by a config, and their state across a restart.

The loop calls them as `Model.fit` does, with one difference: batch hooks fire once for each run of the
inner loop, after its last step. The host is not in charge in between.
"""

import pathlib
from collections.abc import Mapping, Sequence

import keras

from pipeline.data.errors import InputError

# The loop itself does what these are for, and does it exactly.
_REFUSED = {
    "BackupAndRestore": "The run continues from its own checkpoints; leave this callback out.",
    "TensorBoard": "Summaries are written to <workdir>/summaries anyway; leave this callback out.",
}
_WORKDIR_MARK = "{workdir}"

_Spec = Mapping[str, object]
Number = int | float | bool


def build(specs: Sequence[_Spec], *, workdir: pathlib.Path) -> list[keras.callbacks.Callback]:
    """Makes callbacks from {"class_name": …, "config": {…}}; `{workdir}` in a string stands for the workdir.

    Raises:
      InputError: the class is not in keras.callbacks, or does not take these arguments.
    """
    return [_build(spec, workdir) for spec in specs]


def state(callbacks: Sequence[keras.callbacks.Callback]) -> list[dict]:
    """The numbers that callbacks keep, such as the best value; weights that some keep are left out."""
    return [{"class_name": type(callback).__name__, "numbers": _numbers(callback)} for callback in callbacks]


def restore(callbacks: Sequence[keras.callbacks.Callback], saved: Sequence[Mapping]) -> None:
    """Puts `state` back, unless the list of callbacks has changed.

    Call it after `on_train_begin`, which resets some of them.
    """
    for callback, entry in zip(callbacks, saved, strict=False):
        if type(callback).__name__ == entry["class_name"]:
            vars(callback).update(entry["numbers"])


def _numbers(callback: keras.callbacks.Callback) -> dict[str, Number]:
    kept = {name: value for name, value in vars(callback).items() if not name.startswith("_")}
    return {name: value for name, value in kept.items() if isinstance(value, Number)}


def _build(spec: _Spec, workdir: pathlib.Path) -> keras.callbacks.Callback:
    name = str(spec.get("class_name", ""))
    if name in _REFUSED:
        raise _error(name, expected="another callback", action=_REFUSED[name])
    kind = getattr(keras.callbacks, name, None)
    if not (isinstance(kind, type) and issubclass(kind, keras.callbacks.Callback)):
        raise _error(name, expected="a class of keras.callbacks", action="Correct its class_name.")
    arguments = dict(spec.get("config", {}))
    for key, value in arguments.items():
        if isinstance(value, str):
            arguments[key] = value.replace(_WORKDIR_MARK, str(workdir))
    try:
        return kind(**arguments)
    except (TypeError, ValueError) as error:
        raise _error(f"{name} with {arguments}", expected=str(error), action="Correct its config.") from None


def _error(received: str, *, expected: str, action: str) -> InputError:
    return InputError("config.callbacks", received=received, expected=expected, action=action)
