"""Fills a recipe: prints it with each @NAME@ replaced by what the settings say.

  cp deploy/settings.env mine.env     # and set what the recipe names
  python -m deploy.fill --settings=mine.env deploy/cron/penstock-retrain > /etc/cron.d/penstock-retrain

Exit code 2, and nothing is printed: the recipe names a setting that is empty, or the settings have one that
deploy/settings.env does not explain.
"""

if __name__ == "__main__":  # Ctrl-C may come while the imports below run
    from pipeline.base.cli import signals

    signals.handle_signals()

import pathlib
from collections.abc import Sequence

from absl import flags

from deploy import recipe
from pipeline.base.cli.command import Command
from pipeline.base.cli.run import run_command
from pipeline.base.errors import InputError

_SETTINGS = flags.DEFINE_string("settings", None, "FILE: a copy of deploy/settings.env with your values.")

COMMAND = Command(
    name="deploy.fill",
    description=__doc__,
    required=(_SETTINGS,),
    arguments="RECIPE",
    flags={"What the recipe is filled with": (_SETTINGS,)},
)


def main(argv: Sequence[str]) -> None:
    if len(argv) != 2:
        raise InputError(
            "deploy.fill",
            received=" ".join(argv[1:]) or "no recipe",
            expected="one file of deploy/",
            action="See --help.",
        )
    values = recipe.parse(pathlib.Path(_SETTINGS.value).read_text(), name=_SETTINGS.value)
    print(recipe.filled(pathlib.Path(argv[1]).read_text(), values, settings=_SETTINGS.value), end="")


if __name__ == "__main__":
    run_command(main, COMMAND)
