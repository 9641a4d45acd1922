"""Classes that a config names besides its model: callbacks and observers of a user's own.

They are found by `package.module:Class`, as losses and metrics are. If the digest differs when a run
continues, the run does not end, because a corrected mistake must reach it. The run reports it, and is no
longer exact.
"""

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence

import keras

from pipeline.base import redaction
from pipeline.base.errors import InputError, did_you_mean
from pipeline.base.own_code import line_of, one_line
from pipeline.training.experiment import code as code_lib
from pipeline.training.experiment.config import Place
from pipeline.training.loop.callbacks import REFUSED, SURVIVORS
from pipeline.training.loop.own_callbacks import is_own, keeps_state

CALLBACKS = "config.callbacks"
_CALLBACK = "a subclass of keras.callbacks.Callback"
_KEYS = ("class_name", "config")


@dataclasses.dataclass(frozen=True, kw_only=True)
class OwnCallbackCode:
    """The entry of run.json about a callback.

    Attributes:
      exact: whether a killed run continues, as far as this callback is concerned, as if it had not been
        killed.
      why_not: the reason why it does not; empty if it does.
      code: the version of its package, or the file and its digest.
    """

    class_name: str
    exact: bool
    why_not: str
    code: Mapping[str, object]

    def __str__(self) -> str:
        return f"{self.class_name}, exact: {str(self.exact).lower()}{f' ({self.why_not})' * (not self.exact)}"


def of_callbacks(
    specs: Sequence[Mapping], before: Sequence[Mapping], *, place: Place
) -> tuple[OwnCallbackCode, ...]:
    """Imports the user's own callbacks, and says what a kill does to them.

    Args:
      before: the entries of run.json about them, if the run continues.
      place: the place where their code is looked for.

    Raises:
      InputError: a class is not there or is not a Keras callback, or does not take its arguments.
    """
    known = {each["class_name"]: each for each in before}
    return tuple(
        _described(key, spec, known.get(spec["class_name"], {}), place)
        for key, spec in _keyed(specs)
        if is_own(spec["class_name"])
    )


def make_callback(spec: Mapping, *, place: Place) -> keras.callbacks.Callback:
    """Makes the callback of a spec that `of_callbacks` has passed."""
    key = f"{CALLBACKS}, class_name"
    return make(find(spec, keras.callbacks.Callback, key=key, what=_CALLBACK, place=place), spec, key=key)


def make(found: Callable[..., object], spec: Mapping, *, key: str) -> object:
    """Calls a class with the config of its spec; raises an InputError without its secrets if that fails."""
    try:
        return found(**(spec.get("config") or {}))
    except (InputError, MemoryError):
        raise
    except (Exception, SystemExit) as error:
        where = line_of(found, error)
        raise InputError(
            f"{key}={spec['class_name']}",
            received=f"{type(error).__name__}: {redaction.public_text(one_line(error))}",
            expected="a class that can be made with its config",
            action=f"Correct its config{f', or {where}' if where else ''}.",
        ) from error


def find(spec: Mapping, base: type, *, key: str, what: str, place: Place) -> Callable[..., object]:
    """Imports the class of a spec; raises InputError if it is not a subclass of `base`, which `what`
    describes.
    """
    name, arguments = spec["class_name"], spec.get("config") or {}
    found = code_lib.resolve(name, key=key, place=place)
    if not (isinstance(found, type) and issubclass(found, base)):
        raise InputError(
            f"{key}={name}",
            received=f"{'the class ' if isinstance(found, type) else ''}{found.__name__}",
            expected=what,
            action="Correct the name, or derive the class from that one.",
        )
    code_lib.require_arguments(found, arguments, name=name, key=key)
    return found


def require_spec(number: int, spec: object, *, key: str, example: str) -> None:
    """Raises InputError unless a spec is {"class_name": …, "config": {…}}; the config may be left out."""
    thing, shape = f"{key}[{number}]", f"a dict such as {example}"
    if not isinstance(spec, Mapping) or not isinstance(spec.get("config") or {}, Mapping):
        raise InputError(thing, received=_kind(spec), expected=shape, action="Correct it.")
    for each in spec:
        if each not in _KEYS:
            action = did_you_mean(str(each), _KEYS, otherwise="Put arguments into config.")
            raise InputError(thing, received=f"the key {each!r}", expected=shape, action=action)


def _kind(spec: object) -> str:
    return "a dict with another config" if isinstance(spec, Mapping) else f"a {type(spec).__name__}"


def _keyed(specs: Sequence[Mapping]) -> Iterator[tuple[str, Mapping]]:
    return ((f"{CALLBACKS}[{number}], class_name", spec) for number, spec in enumerate(specs))


def _described(key: str, spec: Mapping, before: Mapping, place: Place) -> OwnCallbackCode:
    name = spec["class_name"]
    code = code_lib.find(name, key=key, place=place).record
    found = find(spec, keras.callbacks.Callback, key=key, what=_CALLBACK, place=place)
    _require_not_of_keras(key, name, found)
    why_not = _why_not_exact(found, code, before)
    return OwnCallbackCode(class_name=name, exact=not why_not, why_not=why_not, code=code)


def _why_not_exact(found: type, code: Mapping, before: Mapping) -> str:
    if not keeps_state(found):
        return "it has no get_state and set_state, so a kill loses its state"
    if before and (before["code"] != code or not before["exact"]):
        return "its code has changed since the run began"
    return ""


def _require_not_of_keras(key: str, name: str, found: type) -> None:
    """Raises InputError for a class of Keras: such a class is accepted or refused by its name without a
    module.
    """
    own_name = found.__name__
    if getattr(keras.callbacks, own_name, None) is not found:
        return
    raise InputError(
        f"{key}={name}",
        received="a callback of Keras",
        expected=f"one of your own, or one of Keras that survives a kill: {', '.join(SURVIVORS)}",
        action=REFUSED.get(own_name) or f"Write {own_name} alone.",
    )
