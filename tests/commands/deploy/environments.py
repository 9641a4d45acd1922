"""Environments of their own for libraries that fit neither ours nor each other."""

import pathlib
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence

from tests.commands.deploy import recipes

_SCRIPTS = pathlib.Path(__file__).parent / "elsewhere"


def python_with(requirements: Sequence[str], folder: pathlib.Path) -> pathlib.Path:
    """The Python of an environment in `folder`, made anew where it holds other requirements."""
    python, stamp = folder / "bin/python", folder / "installed"
    asked = "\n".join(requirements)
    if not stamp.exists() or stamp.read_text() != asked:
        subprocess.run([sys.executable, "-m", "venv", "--clear", folder], check=True)
        subprocess.run([python, "-m", "pip", "install", "--quiet", *requirements], check=True)
        stamp.write_text(asked)
    return python


def told_by(
    script: str, *arguments: object, python: pathlib.Path, environment: Mapping[str, str] | None = None
) -> Iterator[str]:
    """What a script of elsewhere/ prints; raises CalledProcessError, with its output, where it fails."""
    done = subprocess.run(
        [python, _SCRIPTS / script, *map(str, arguments)],
        cwd=recipes.CHECKOUT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        check=False,
    )  # fmt: skip
    if done.returncode:
        raise subprocess.CalledProcessError(done.returncode, script, done.stdout[-3000:])
    yield from done.stdout.splitlines()


def written(recipe: str, folder: pathlib.Path) -> pathlib.Path:
    """The recipe deploy/RECIPE, filled, as a file below `folder`."""
    path = folder / "filled" / recipe
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(recipes.filled(recipe, recipes.settings(pathlib.Path("/data/taxi"))))
    return path
