"""A config of retraining, parsed once and checked, in frozen sections."""

import dataclasses
import datetime
import glob
import hashlib
import json
import math
import numbers
import pathlib
import re
from collections.abc import Mapping, Sequence
from typing import TypeVar

from croniter import CroniterBadDateError, croniter
from ml_collections import ConfigDict

from pipeline.base.cli import config
from pipeline.base.errors import InputError, did_you_mean
from pipeline.base.values import Rule, Values, broken_rules, section, with_values
from pipeline.exporting import runtimes
from pipeline.gate.rules import GateRules
from pipeline.publishing.remote import cloud_storage
from pipeline.publishing.remote.cloud_storage import Place
from pipeline.retraining import datasets
from pipeline.retraining.datasets import Sources
from pipeline.retraining.parity_result import ParityLimits
from pipeline.retraining.records import Root
from pipeline.serving.result import Limits
from pipeline.training.experiment import config as experiment_lib
from pipeline.training.experiment import defaults, model_code

LATER, SPLIT = "later", "split"
SCRATCH, CHAMPION = "scratch", "champion"
_Limits = TypeVar("_Limits", ParityLimits, Limits)
# Earlier than any schedule, which may name a year.
_LONG_AGO = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Commands:
    """Modules that a cycle runs as processes of their own. They come from a command, because only a command
    may name commands.
    """

    convert: str
    train: str
    export: str


# pipeline/configs/retraining/base.py explains each setting.


@dataclasses.dataclass(frozen=True, kw_only=True)
class Spans:
    raw: str
    schema: str
    convert: tuple[str, ...]
    exclude: tuple[str, ...]
    marker: str
    unusable: str


@dataclasses.dataclass(frozen=True, kw_only=True)
class Window:
    last: int
    start: str
    end: str
    least: int


@dataclasses.dataclass(frozen=True, kw_only=True)
class Holdout:
    kind: str
    last: int
    weighted_by: str
    most_seen: float


@dataclasses.dataclass(frozen=True, kw_only=True)
class Train:
    config: str
    flags: tuple[str, ...]
    start: str


@dataclasses.dataclass(frozen=True, kw_only=True)
class Export:
    formats: tuple[str, ...]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Triggers:
    new_spans: int
    cron: str
    age_days: float
    drift: float


@dataclasses.dataclass(frozen=True, kw_only=True)
class Drift:
    hold: float
    ignore: tuple[str, ...]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Keep:
    versions: int
    cycles: int


@dataclasses.dataclass(frozen=True, kw_only=True)
class Notify:
    command: str
    webhook: str

    def public(self) -> dict[str, str]:
        """Returns only the program and the host: what follows them may be a secret."""
        program, *more = self.command.split(maxsplit=1) or [""]
        return {"command": f"{program} …" if more else program, "webhook": _host(self.webhook)}


_SECTIONS = {
    kind.__name__.lower(): kind
    for kind in (Spans, Window, Holdout, Train, Export, Triggers, Drift, Keep, Notify)
}


# Groups of the config whose keys are the fields of these classes, and which a config file may leave empty.
GROUPS: Mapping[str, Sequence[str]] = {
    name: tuple(field.name for field in dataclasses.fields(kind))
    for name, kind in (("gate", GateRules), ("parity", ParityLimits), ("infra", Limits))
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Settings:
    """A parsed config of retraining.

    Attributes:
      store: the store of config.publish_to; None: versions are published nowhere else.
      given: the config as JSON.
    """

    name: str
    spans: Spans
    window: Window
    holdout: Holdout
    train: Train
    export: Export
    triggers: Triggers
    drift: Drift
    gate: GateRules
    gate_anchor: int
    parity: ParityLimits
    infra: Limits
    serving_url: str
    keep: Keep
    attempts: int
    notify: Notify
    store: Place | None
    commands: Commands
    given: Values

    def sources(self, root: Root) -> Sources:
        """Raises InputError where there is no schema."""
        spans = self.spans
        return Sources(
            pattern=str(pathlib.Path(glob.escape(str(root.path)), spans.raw)),
            conversion=datasets.Conversion(
                module=self.commands.convert,
                schema=datasets.schema_of(root.absolute(spans.schema)),
                flags=spans.convert,
            ),
            exclude=spans.exclude,
            unusable=spans.unusable,
            marker=spans.marker,
        )

    def public(self) -> Values:
        """Returns the config as JSON without its secrets, for the plan of a cycle, which others may read."""
        return {**self.given, "notify": self.notify.public(), "serving_url": _host(self.serving_url)}

    def digest(self) -> str:
        """Digests the settings that change the work or the decision of a cycle, and the experiment.

        Raises:
          InputError: the experiment's file gives no config, or names code that does not exist.
        """
        values = {
            key: self.given[key] for key in ("holdout", "export", "gate", "gate_anchor", "parity", "infra")
        }
        values["train"] = {key: value for key, value in self.given["train"].items() if key != "config"}
        path = pathlib.Path(self.train.config)
        if not path.is_file():
            raise _wrong("train.config", self.train.config, _RULES["train.config"][1])
        values["experiment"] = [
            hashlib.sha256(path.read_bytes()).hexdigest(),
            json.loads(_experiment(path).to_json_best_effort()),
            _code(path, self.train.flags),
        ]
        return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()


def _host(url: str) -> str:
    """Returns an address without the log-in before its host and without everything after it."""
    scheme, separator, rest = url.partition("://") if "://" in url else ("", "", url)
    host = re.split("[/?#]", rest)[0]
    return f"{scheme}{separator}{host.rpartition('@')[2]}" + ("/…" if host != rest else "")


def ending_at(settings: Settings, name: str) -> Settings:
    """Returns the settings with a window whose last span is `name`."""
    given = {**settings.given, "window": {**settings.given["window"], "end": name}}
    return dataclasses.replace(settings, window=dataclasses.replace(settings.window, end=name), given=given)


def parse(config: Values, commands: Commands, *, like: Values) -> Settings:
    """Parses the values of a config file.

    Args:
      like: the values of the shared config, which are the defaults.

    Raises:
      InputError: a setting is unknown, missing or invalid, or needs a library that is not installed.
    """
    check_types(config, like)
    for key, value, expected in broken_rules(config, _RULES):
        raise _wrong(key, value, expected)
    runtimes.require(config["export"]["formats"], setting="config.export.formats")
    return Settings(
        **{name: section(kind, config[name]) for name, kind in _SECTIONS.items()},
        **{name: config[name] for name in ("name", "gate_anchor", "serving_url", "attempts")},
        gate=GateRules.of(config["gate"]),
        parity=_limits("parity", ParityLimits, config["parity"]),
        infra=_limits("infra", Limits, config["infra"]),
        store=cloud_storage.parse(config["publish_to"]),
        commands=commands,
        given=json.loads(json.dumps(config, default=str)),
    )


def _is_schedule(cron: str) -> bool:
    """Returns whether the schedule is ever due: the 30th of February is not."""
    try:
        return croniter.is_valid(cron) and bool(croniter(cron, _LONG_AGO).get_next())
    except CroniterBadDateError:
        return False


# Flags that a cycle itself gives to the commands: see datasets.py and stages.py.
_FLAGS_OF_CONVERT = ("input", "schema", "output")
_FLAGS_OF_TRAIN = ("config", "dataset", "workdir", "json", "warm_start", "baseline", "nobaseline")


def _besides(given: Sequence[str]) -> Rule:
    """Refuses a flag that a cycle gives itself: a command with a flag given twice would fail, every night."""

    def is_right(flags: Sequence[str]) -> bool:
        return not {flag.lstrip("-").partition("=")[0] for flag in flags} & {*given}

    return (
        is_right,
        f"none of the flags that a cycle gives itself: {', '.join(f'--{flag}' for flag in given)}",
    )


def _from(least: int) -> Rule:
    return lambda value: value >= least, f"a number from {least} on"


def _one_of(*choices: str) -> Rule:
    return lambda value: value in choices, " or ".join(choices)


_RULES: Mapping[str, Rule] = {
    "spans.unusable": _one_of("skip", "stop"),
    "holdout.kind": _one_of(LATER, SPLIT),
    "train.start": _one_of(SCRATCH, CHAMPION),
    "spans.convert": _besides(_FLAGS_OF_CONVERT),
    "train.flags": _besides(_FLAGS_OF_TRAIN),
    **dict.fromkeys(("window.last", "holdout.most_seen", "drift.hold", "gate_anchor"), _from(0)),
    **dict.fromkeys(("triggers.new_spans", "triggers.age_days", "triggers.drift"), _from(0)),
    **dict.fromkeys(("window.least", "holdout.last", "keep.versions", "keep.cycles", "attempts"), _from(1)),
    "triggers.cron": (
        lambda cron: not cron or _is_schedule(cron),
        'a cron expression, such as "0 3 * * *"',
    ),
    "train.config": (
        lambda path: pathlib.Path(config.config_file(path)).is_file(),
        "a file with an experiment, one of pipeline/configs or your own",
    ),
}


def check_types(config: Values, like: Values, *, group: str = "") -> None:
    """Compares the types of values with those in `like`; an empty group in `like` allows anything.

    Raises:
      InputError: a setting is missing, is unknown, or has a value of another type.
    """
    for key in config:
        if key not in like:
            meant = did_you_mean(key, list(like), otherwise="Leave it out.")
            raise _error(f"{group}{key}", "an unknown setting", "one of base.py", meant)
    for key, meant in like.items():
        name = f"{group}{key}"
        if key not in config:
            raise _error(name, "nothing", "a value", "Begin with get_config() of base.py.")
        value = config[key]
        if not isinstance(meant, Mapping):
            _check_type(name, value, meant)
        elif not isinstance(value, Mapping):
            raise _error(name, repr(value), "a group of settings", "Set what is in it, one by one.")
        elif meant:
            check_types(value, meant, group=f"{name}.")


def _check_type(key: str, value: object, meant: object) -> None:
    fits, expected = {
        int: (lambda: _is_number(value, int), "a whole number"),
        float: (lambda: _is_number(value, float) and _is_finite(value), "a finite number"),
        str: (lambda: _is_text(value), "a text"),
        tuple: (lambda: _is_texts(value), 'texts, such as ("one", "two")'),
    }[type(meant)]
    if not fits():
        raise _wrong(key, value, expected)


def _is_number(value: object, kind: object) -> bool:
    """Returns whether the value is of a type such as `int` or `float | None`; a whole number is a float, too.

    NaN is not a number here: every comparison with it is false, so as a limit it would limit nothing.
    """
    if isinstance(value, bool):
        return False
    if isinstance(value, kind):
        return value is None or not math.isnan(value)
    return isinstance(value, numbers.Integral) and isinstance(0.0, kind)


def _is_finite(value: float) -> bool:
    try:
        return math.isfinite(value)
    except OverflowError:  # a whole number too large for a float
        return False


def _is_text(value: object) -> bool:
    """Returns whether the value is a text that can be written to a file and passed to a command."""
    return isinstance(value, str) and "\0" not in value and value.encode(errors="ignore").decode() == value


def _is_texts(value: object) -> bool:
    is_list = isinstance(value, Sequence) and not isinstance(value, str)
    return is_list and all(_is_text(one) for one in value)


def _code(path: pathlib.Path, flags: Sequence[str]) -> list[object]:
    """Describes an experiment's own code, as training finds it, but not where the code is."""
    given = (flag.lstrip("-").removeprefix("config.") for flag in flags if flag.startswith("--config."))
    values = dict(each.split("=", 1) for each in given if "=" in each)
    whole = config.swept(_experiment(path), values, flag="config.train.flags")
    values = whole.to_dict()
    experiment_lib.check_keys(values)
    # Values that the rules take from the rows name no code. Each cycle takes them anew, so a growing window
    # changes nothing here.
    known = with_values(values, defaults.by_rows(values, rows=1, is_validated=False))
    records = model_code.records(experiment_lib.parse(known, config_file=str(path)))
    places = ("folder", "file")
    return [
        [name, {key: each for key, each in record.items() if key not in places}]
        for name, record in sorted(records.items())
    ]


def _experiment(path: pathlib.Path) -> ConfigDict:
    """Returns the values of an experiment, most of which come from files such as configs/base.py."""
    try:
        return config.get_config(str(path))
    except Exception as error:  # errors of any class: it is the user's code
        raise InputError(
            f"config.train.config={path}",
            received=f"{type(error).__name__}: {' '.join(str(error).split())}",
            expected="a Python file with a function get_config(), as pipeline.train takes it",
            action="Correct it; `python -m pipeline.train --config=FILE --help` reads it too.",
        ) from None


def _limits(key: str, kind: type[_Limits], values: Values) -> _Limits:
    types = {field.name: field.type for field in dataclasses.fields(kind)}
    for name, value in values.items():
        if name not in types:
            raise _wrong(f"{key}.{name}", value, f"one of {', '.join(types)}")
        if not _is_number(value, types[name]):
            whole = types[name] in (int, int | None)
            raise _wrong(f"{key}.{name}", value, "a whole number" if whole else "a number")
    return kind(**values)


def _wrong(key: str, value: object, expected: str) -> InputError:
    return _error(key, repr(value), expected, "Correct it.")


def _error(key: str, received: str, expected: str, action: str) -> InputError:
    return InputError(f"config.{key}", received=received, expected=expected, action=action)
