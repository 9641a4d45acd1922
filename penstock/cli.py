"""`penstock COMMAND …` starts a command as `python -m beam_jobs.COMMAND` or `pipeline.COMMAND` does.

It imports little: `penstock --help` answers before it loads any command's libraries.
"""

import os
import pathlib
import re
import runpy
import sys
from collections.abc import Sequence

from pipeline.base.errors import InputError, answer, did_you_mean

_ROOT = pathlib.Path(__file__).parents[1]
_ROOMS = ("beam_jobs", "pipeline")
# The order in which commands are used; those that are not listed come last.
_ORDER = ("infer_schema", "convert", "verify", "train", "evaluate", "export", "predict")
_COMPLETION = "completion"
_FIRST_LINE = re.compile(r'r?"""(.*?)(?:"""|\n)')
_HELP = ("--help", "-h", "-help", "help")


def main(argv: Sequence[str] | None = None) -> int:
    """Returns the exit code of a command line without the program's name; None: the command line of this
    process.
    """
    name, *rest = [*(sys.argv[1:] if argv is None else argv), ""]
    try:
        if name in ("", *_HELP):
            print(help_page())
        elif name == "--version":
            print(f"penstock {version()}")
        elif name == _COMPLETION:
            from penstock import completion

            print(completion.script(rest[0], commands()))
        else:
            _run(_module(name))
    except InputError as error:
        return answer(error)
    return 0


def commands() -> dict[str, str]:
    """The module of each command, such as `pipeline.train`, in the order of --help."""
    found = {
        path.stem: f"{room}.{path.stem}"
        for room in _ROOMS
        for path in sorted((_ROOT / room).glob("[!_]*.py"))
    }
    known = [name for name in _ORDER if name in found]
    return {name: found[name] for name in (*known, *(name for name in found if name not in known))}


def help_page() -> str:
    width = max(map(len, commands())) + 2
    lines = [f"  {name.ljust(width)}{_summary(module)}" for name, module in commands().items()]
    lines.append(f"  {_COMPLETION.ljust(width)}Prints what completes commands and flags in bash or zsh.")
    return "\n".join(
        [
            "usage: penstock COMMAND [FLAGS]",
            "",
            "Raw data → TFRecords → a trained, evaluated, exported, published Keras model.",
            "",
            *lines,
            "",
            "penstock COMMAND --help lists a command's flags, with examples.",
        ]
    )


def version() -> str:
    import importlib.metadata  # this import takes a tenth of a second

    try:
        return importlib.metadata.version("penstock")
    except importlib.metadata.PackageNotFoundError:
        return "of a checkout, which is not installed"


def _summary(module: str) -> str:
    """The first line of a command's docstring, which --help shows; without importing the command."""
    text = (_ROOT / f"{module.replace('.', '/')}.py").read_text()
    return _FIRST_LINE.match(text)[1]


def _module(name: str) -> str:
    known = commands()
    asked = name.removeprefix("beam_jobs.").removeprefix("pipeline.")
    if asked not in known:
        raise InputError(
            f"penstock {name}",
            received="a command that does not exist",
            expected="one that `penstock --help` lists",
            action=did_you_mean(
                asked, [*known, _COMPLETION], otherwise="See penstock --help.", form="penstock {}"
            ),
        )
    return known[asked]


def _run(module: str) -> None:
    """Runs the module as `python -m` does: it ends the process."""
    del sys.argv[1]
    if os.getcwd() not in sys.path:  # noqa: PTH109 - a config's own modules; behind ours, which it must not hide
        sys.path.append(os.getcwd())  # noqa: PTH109
    runpy.run_module(module, run_name="__main__", alter_sys=True)
