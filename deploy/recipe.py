"""Recipes and settings: files with placeholders, and what is put in their place."""

import pathlib
import re
from collections.abc import Mapping

from pipeline.base.errors import InputError, did_you_mean

EXPLAINED = pathlib.Path(__file__).parent / "settings.env"
PLACEHOLDER = re.compile(r"@([A-Z][A-Z_]*)@")
# What means nothing to a shell, to cron (%), to systemd (% and $), to YAML and to Python's quotes.
_PLAIN = re.compile(r"[\w./:@+=,-]+", re.ASCII)


def filled(recipe: str, values: Mapping[str, str], *, settings: str) -> str:
    """The text of `recipe` with values for its placeholders; `settings` is the file they come from.

    Raises:
      InputError: one has no value; all such are named.
    """
    if lacking := sorted({name for name in PLACEHOLDER.findall(recipe) if not values.get(name)}):
        raise InputError(
            settings,
            received=f"no value of {', '.join(lacking)}",
            expected="one for each setting that the recipe names",
            action="deploy/settings.env explains each.",
        )
    return PLACEHOLDER.sub(lambda found: values[found[1]], recipe)


def parse(text: str, *, name: str) -> dict[str, str]:
    """The settings in `text`, the content of the file `name`: lines of NAME=VALUE, and comments.

    Raises:
      InputError: a line is no setting, the recipes know none of that name, or a value would need quotes.
    """
    known = {line.partition("=")[0] for line in _lines(EXPLAINED.read_text())}
    return dict(_setting(line, known, name=name) for line in _lines(text))


def _lines(text: str) -> list[str]:
    stripped = (line.strip() for line in text.splitlines())
    return [line for line in stripped if line and not line.startswith("#")]


def _setting(line: str, known: set[str], *, name: str) -> tuple[str, str]:
    key, _, value = line.partition("=")
    if key not in known:
        raise InputError(
            name,
            received=line,
            expected="a setting of deploy/settings.env",
            action=did_you_mean(key, known, otherwise="Remove the line."),
        )
    if value and not _PLAIN.fullmatch(value):
        raise InputError(
            f"{name}, {key}",
            received=repr(value),
            expected="letters, digits and . / : @ + = , - _",
            action="Recipes have no quotes for anything else: choose another name or path.",
        )
    return key, value
