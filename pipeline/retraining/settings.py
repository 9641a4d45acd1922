"""A config of retraining, checked, as the rest uses it."""

import dataclasses
import datetime
import glob
import hashlib
import json
import math
import numbers
import pathlib
from collections.abc import Sequence

from croniter import CroniterBadDateError, croniter
from ml_collections import ConfigDict

from pipeline.base.cli import config
from pipeline.base.errors import InputError, did_you_mean
from pipeline.gate.rules import GateRules
from pipeline.publishing.remote import place
from pipeline.publishing.remote.place import Place
from pipeline.retraining import datasets
from pipeline.retraining.datasets import Sources
from pipeline.retraining.parity_result import ParityLimits
from pipeline.retraining.records import Root
from pipeline.serving.result import Limits

LATER, SPLIT = "later", "split"
SCRATCH, CHAMPION = "scratch", "champion"
_CHOICES = {
    "spans.unusable": ("skip", "stop"),
    "holdout.kind": (LATER, SPLIT),
    "train.start": (SCRATCH, CHAMPION),
}
_LEAST = {
    "window.last": 0,
    "window.least": 1,
    "holdout.last": 1,
    "holdout.most_seen": 0,
    "triggers.new_spans": 0,
    "triggers.age_days": 0,
    "triggers.drift": 0,
    "drift.hold": 0,
    "keep.versions": 1,
    "keep.cycles": 1,
    "gate_anchor": 0,
    "attempts": 1,
}
_LONG_AGO = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)  # schedules may name a year


@dataclasses.dataclass(frozen=True, kw_only=True)
class Commands:
    """Modules that a cycle starts as processes of their own. Only a binary may name binaries."""

    convert: str
    train: str
    export: str


@dataclasses.dataclass(frozen=True, kw_only=True)
class Settings:
    """What pipeline/configs/retraining/base.py explains, with the parts that have types of their own."""

    config: ConfigDict
    commands: Commands
    gate: GateRules
    parity: ParityLimits
    infra: Limits
    store: Place | None = None  # of config.publish_to

    def sources(self, root: Root) -> Sources:
        """Raises InputError where there is no schema."""
        spans = self.config.spans
        return Sources(
            pattern=str(pathlib.Path(glob.escape(str(root.path)), spans.raw)),
            conversion=datasets.Conversion(
                module=self.commands.convert,
                schema=datasets.schema_of(root.absolute(spans.schema)),
                flags=tuple(spans.convert),
            ),
            exclude=tuple(spans.exclude),
            unusable=spans.unusable,
            marker=spans.marker,
        )

    def digest(self) -> str:
        """Of each setting that changes what a cycle makes or decides, and of the experiment, wherever it is.

        Raises:
          InputError: the experiment's file gives no config.
        """
        config = json.loads(self.config.to_json_best_effort())
        told = {key: config[key] for key in ("train", "holdout", "gate", "gate_anchor", "parity", "infra")}
        path = _experiment(told["train"].pop("config"))
        told["experiment"] = [hashlib.sha256(path.read_bytes()).hexdigest(), _values(path)]
        return hashlib.sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()


def ending_at(settings: Settings, name: str) -> Settings:
    """The same, of a window whose last span is `name`."""
    config = settings.config.copy_and_resolve_references()
    config.window.end = name
    return dataclasses.replace(settings, config=config)


def parse(config: ConfigDict, commands: Commands, *, like: ConfigDict) -> Settings:
    """Raises InputError for a value that cannot be meant, or for which a library is missing.

    Args:
      like: the shared config, with its defaults.
    """
    check_config(config, like)
    for key, choices in _CHOICES.items():
        _check(key, _value(config, key), _value(config, key) in choices, " or ".join(choices))
    for key, least in _LEAST.items():
        value = _value(config, key)
        _check(key, value, value >= least, f"a number from {least} on")
    cron = config.triggers.cron
    _check("triggers.cron", cron, not cron or _is_schedule(cron), 'a cron expression, such as "0 3 * * *"')
    _experiment(config.train.config)
    return Settings(
        config=config,
        commands=commands,
        gate=GateRules.of(config.gate),
        parity=_typed("parity", ParityLimits, config.parity),
        infra=_typed("infra", Limits, config.infra),
        store=place.parse(config.publish_to),
    )


def _is_schedule(cron: str) -> bool:
    """Whether it is one that ever comes: the 30th of February does not."""
    try:
        return croniter.is_valid(cron) and bool(croniter(cron, _LONG_AGO).get_next())
    except CroniterBadDateError:
        return False


def _value(config: ConfigDict, key: str) -> object:
    for part in key.split("."):
        config = config[part]
    return config


def _check(key: str, value: object, is_right: bool, expected: str) -> None:
    if not is_right:
        raise InputError(f"config.{key}", received=repr(value), expected=expected, action="Correct it.")


def _experiment(path: str) -> pathlib.Path:
    """The file of --config for pipeline.train."""
    found = pathlib.Path(path)
    _check(
        "train.config",
        path,
        found.is_file(),
        "a file with an experiment, one of pipeline/configs or your own",
    )
    return found


def _values(path: pathlib.Path) -> dict:
    """What an experiment sets. Most of that stands in files that it begins with, such as configs/base.py."""
    try:
        return json.loads(config.get_config(str(path)).to_json_best_effort())
    except Exception as error:  # of any kind: it is the user's code
        raise InputError(
            f"config.train.config={path}",
            received=f"{type(error).__name__}: {' '.join(str(error).split())}",
            expected="a Python file with a function get_config(), as pipeline.train takes it",
            action="Correct it; `python -m pipeline.train --config=FILE --help` reads it too.",
        ) from None


def _typed(key: str, kind: type, config: ConfigDict) -> object:
    kinds = {field.name: field.type for field in dataclasses.fields(kind)}
    for name, value in config.items():
        _check(f"{key}.{name}", value, name in kinds, f"one of {', '.join(kinds)}")
        _check(f"{key}.{name}", value, is_number(value, kinds[name]), _told(kinds[name]))
    return kind(**config.to_dict())


def _told(kind: type) -> str:
    return "a whole number" if kind in (int, int | None) else "a number"


# --- A config of retraining has the settings of the shared one, each of its type: a typo is named, not kept.


def check_config(config: ConfigDict, like: ConfigDict, *, group: str = "") -> None:
    """Compares with `like`, whose values have the types that are meant; an empty group of it holds anything.

    Raises:
      InputError: a setting is missing, is unknown, or has a value of another type.
    """
    for key in config:
        if key not in like:
            meant = did_you_mean(key, list(like), otherwise="Leave it out.")
            raise _error(f"{group}{key}", "a setting that there is not", "one of base.py", meant)
    for key, meant in like.items():
        name = f"{group}{key}"
        if key not in config:
            raise _error(name, "nothing", "a value", "Begin with get_config() of base.py.")
        value = config[key]
        if not isinstance(meant, ConfigDict):
            _check_value(name, value, meant)
        elif not isinstance(value, ConfigDict):
            raise _error(name, repr(value), "a group of settings", "Set what is in it, one by one.")
        elif meant:
            check_config(value, meant, group=f"{name}.")


def is_number(value: object, kind: object) -> bool:
    """Whether the value is of a type such as `int` or `float | None`; a whole number is a float, too.

    NaN is none: every comparison with it fails, so that as a limit it would limit nothing.
    """
    if isinstance(value, bool):
        return False
    if isinstance(value, kind):
        return value is None or not math.isnan(value)
    return isinstance(value, numbers.Integral) and isinstance(0.0, kind)


def _check_value(name: str, value: object, meant: object) -> None:
    fits, expected = {
        int: (lambda: is_number(value, int), "a whole number"),
        float: (lambda: is_number(value, float) and _is_finite(value), "a finite number"),
        str: (lambda: _is_text(value), "a text"),
        tuple: (lambda: _is_texts(value), 'texts, such as ("one", "two")'),
    }[type(meant)]
    if not fits():
        raise _error(name, repr(value), expected, "Correct it.")


def _is_finite(value: float) -> bool:
    try:
        return math.isfinite(value)
    except OverflowError:  # a whole number beyond all floats
        return False


def _is_text(value: object) -> bool:
    """Whether it is one that can be written to a file and given to a command."""
    return isinstance(value, str) and "\0" not in value and value.encode(errors="ignore").decode() == value


def _is_texts(value: object) -> bool:
    is_list = isinstance(value, Sequence) and not isinstance(value, str)
    return is_list and all(_is_text(one) for one in value)


def _error(name: str, received: str, expected: str, action: str) -> InputError:
    return InputError(f"config.{name}", received=received, expected=expected, action=action)
