"""Fills a recipe: prints it with each @NAME@ replaced by what the settings say.

  cp deploy/settings.env mine.env     # and set what the recipe names
  python -m deploy.fill --settings=mine.env deploy/cron/penstock-retrain > /etc/cron.d/penstock-retrain

Exit code 2, and nothing is printed: the recipe names a setting that is empty, or the settings have one that
deploy/settings.env does not explain.
"""

if __name__ == "__main__":  # Ctrl-C may come while the imports below run
    from pipeline.data.commands import interrupt

    interrupt.installed()

import pathlib
import re
from collections.abc import Mapping, Sequence

from absl import flags

from pipeline.data.commands.command import Command
from pipeline.data.commands.run import run_command
from pipeline.data.errors import InputError
from pipeline.data.nearest import did_you_mean

_SETTINGS = flags.DEFINE_string("settings", None, "FILE: a copy of deploy/settings.env with your values.")

COMMAND = Command(
    name="deploy.fill",
    description=__doc__,
    required=(_SETTINGS,),
    arguments="RECIPE",
    flags={"What the recipe is filled with": (_SETTINGS,)},
)
EXPLAINED = pathlib.Path(__file__).parent / "settings.env"
PLACEHOLDER = re.compile(r"@([A-Z][A-Z_]*)@")
# What means nothing to a shell, to cron (%), to systemd (% and $), to YAML and to Python's quotes.
_PLAIN = re.compile(r"[\w./:@+=,-]+", re.ASCII)


def main(argv: Sequence[str]) -> None:
    if len(argv) != 2:
        raise InputError(
            "deploy.fill",
            received=" ".join(argv[1:]) or "no recipe",
            expected="one file of deploy/",
            action="See --help.",
        )
    values = parse(pathlib.Path(_SETTINGS.value).read_text(), name=_SETTINGS.value)
    print(filled(pathlib.Path(argv[1]).read_text(), values, settings=_SETTINGS.value), end="")


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


if __name__ == "__main__":
    run_command(main, COMMAND)
