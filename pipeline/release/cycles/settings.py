"""A config of retraining, checked, as the rest uses it."""

import dataclasses
import datetime
import glob
import hashlib
import json
import pathlib

from croniter import CroniterBadDateError, croniter
from ml_collections import ConfigDict

from pipeline.data.commands import config_flag
from pipeline.data.errors import InputError
from pipeline.release.cycles import config_check
from pipeline.release.cycles.records.root import Root
from pipeline.release.cycles.spans import datasets
from pipeline.release.cycles.spans.survey import Sources
from pipeline.release.gate.rules import GateRules
from pipeline.release.infra.limits import Limits
from pipeline.release.parity.limits import ParityLimits
from pipeline.release.publish.remote import place
from pipeline.release.publish.remote.place import Place

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
    config_check.check(config, like)
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
        return json.loads(config_flag.get_config(str(path)).to_json_best_effort())
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
        _check(f"{key}.{name}", value, config_check.is_number(value, kinds[name]), _told(kinds[name]))
    return kind(**config.to_dict())


def _told(kind: type) -> str:
    return "a whole number" if kind in (int, int | None) else "a number"
