"""Checks `config.callbacks` before a model is built."""

import dataclasses
import pathlib
from collections.abc import Mapping, Sequence

from pipeline.base.errors import InputError, did_you_mean
from pipeline.training.loop.callbacks import REFUSED, SURVIVORS, WORKDIR_MARK
from pipeline.training.loop.own_callbacks import is_own

_KEYS = ("class_name", "config")
_SUFFIXES = (".csv", ".tsv", ".txt", ".log")  # suffixes that no file of the run itself has
_MONITOR = "val_loss"  # Keras's default
_KNOWN_TO_KERAS = ("loss", "val_loss")  # metrics whose better direction Keras knows


@dataclasses.dataclass(frozen=True, kw_only=True)
class NoValidation:
    """Why a run logs no numbers of a validation, and the setting with which it does."""

    reason: str
    setting: str


def check(
    specs: Sequence[object],
    *,
    logged: Sequence[str],
    lacking: NoValidation | None = None,
    has_schedule: bool,
) -> None:
    """Refuses callbacks that Keras would refuse after an epoch, or that could never work.

    Args:
      specs: specs of callbacks, each {"class_name": …, "config": {…}}.
      logged: numbers that a callback can monitor.
      lacking: why there are no numbers of a validation, where there are none.
      has_schedule: whether the learning rate follows a schedule, so that no callback can set it.

    Raises:
      InputError: a callback cannot work; the error names it, the argument, what was received and what is
        expected.
    """
    files: list[str] = []
    for number, spec in enumerate(specs):
        name, arguments = _read(number, spec)
        if is_own(name):
            continue
        thing = f"config.callbacks[{number}], {name}"
        _check_arguments(thing, name, arguments)
        if "monitor" in SURVIVORS[name].arguments:
            _check_monitor(thing, arguments, logged, lacking)
        if "factor" in SURVIVORS[name].arguments and has_schedule:
            raise _schedule(thing)
        if "filename" in arguments:
            files.append(_checked_file(thing, arguments["filename"], files))


def _read(number: int, spec: object) -> tuple[str, Mapping[str, object]]:
    """The class and the arguments; raises InputError if the class is not an accepted one."""
    thing = f"config.callbacks[{number}]"
    shape = 'a dict such as {"class_name": "EarlyStopping", "config": {"monitor": "val_loss"}}'
    if not isinstance(spec, Mapping) or not isinstance(spec.get("config") or {}, Mapping):
        raise InputError(thing, received=repr(spec), expected=shape, action="Correct it.")
    for key in spec:
        if key not in _KEYS:
            action = did_you_mean(str(key), _KEYS, otherwise="Put arguments into config.")
            raise InputError(thing, received=f"the key {key!r}", expected=shape, action=action)
    name = spec.get("class_name")
    if name not in SURVIVORS and not is_own(name):
        allowed = f"a callback that survives a kill: {', '.join(SURVIVORS)}, or your own, as module:Class"
        action = REFUSED.get(name) or did_you_mean(
            str(name), SURVIVORS, otherwise="Correct its class_name, or leave it out."
        )
        raise InputError(f"{thing}, class_name", received=repr(name), expected=allowed, action=action)
    return name, spec.get("config") or {}


def _check_arguments(thing: str, name: str, arguments: Mapping[str, object]) -> None:
    known = SURVIVORS[name].arguments
    for key, value in arguments.items():
        if key not in known:
            raise InputError(
                thing,
                received=f"the argument {key!r}",
                expected=f"some of {', '.join(known)}",
                action=did_you_mean(str(key), known, otherwise="Correct its config."),
            )
        wrong = known[key](value)
        if wrong:
            raise InputError(
                f"{thing}, {key}", received=repr(value), expected=wrong, action="Correct its config."
            )
    for key in SURVIVORS[name].needed:
        if key not in arguments:
            raise InputError(
                thing, received=f"no {key}", expected=f"the argument {key}", action="Add it to its config."
            )


def not_logged(
    thing: str, metric: str, logged: Sequence[str], lacking: NoValidation | None, *, otherwise: str
) -> InputError:
    """The error for a metric that is not among the numbers of an epoch; `otherwise` is the way out where none
    is like it.
    """
    expected = f"a number that is logged at the end of an epoch: {', '.join(logged)}"
    if lacking and metric.startswith("val_"):
        received = f"{metric!r}, {lacking.reason}"
        action = f"Choose one of these, or set {lacking.setting}."
        return InputError(thing, received=received, expected=expected, action=action)
    action = did_you_mean(metric, logged, otherwise=otherwise)
    return InputError(thing, received=repr(metric), expected=expected, action=action)


def _check_monitor(
    thing: str, arguments: Mapping[str, object], logged: Sequence[str], lacking: NoValidation | None
) -> None:
    monitor = arguments.get("monitor", _MONITOR)
    if monitor not in logged:
        raise not_logged(f"{thing}, monitor", monitor, logged, lacking, otherwise="Choose one of these.")
    if arguments.get("mode", "auto") == "auto" and monitor not in _KNOWN_TO_KERAS:
        raise InputError(
            f"{thing}, mode",
            received="none, or 'auto'",
            expected=f"'max' or 'min': Keras cannot tell which way {monitor} is better",
            action='Add "mode": "max" where more is better, else "mode": "min".',
        )


def _schedule(thing: str) -> InputError:
    return InputError(
        thing,
        received="a learning rate that follows a schedule, which no callback can change",
        expected="one that is constant",
        action="Leave this callback out, or set --config.optimizer.schedule=constant "
        "and --config.optimizer.warmup_part=0.",
    )


def _checked_file(thing: str, name: str, taken: Sequence[str]) -> str:
    """The file's name; raises InputError if it is not in the working directory, or may belong to something
    else.
    """
    folder, _, file = name.rpartition("/")
    if folder != WORKDIR_MARK or pathlib.PurePosixPath(file).suffix not in _SUFFIXES:
        raise InputError(
            f"{thing}, filename",
            received=repr(name),
            expected=f"'{WORKDIR_MARK}/NAME', where NAME ends in {', '.join(_SUFFIXES)}",
            action=f"Write '{WORKDIR_MARK}/epochs.csv': a file elsewhere would not follow the run.",
        )
    if name in taken:
        raise InputError(
            f"{thing}, filename",
            received=f"{name!r}, which another callback writes",
            expected="a file of its own",
            action="Choose another name.",
        )
    return name
