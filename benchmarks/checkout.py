"""A checkout of this project, old or new, and the Python that runs its commands."""

import contextlib
import dataclasses
import os
import pathlib
import shlex
import subprocess
import tempfile
from collections.abc import Iterator

from pipeline.base.errors import InputError

ROOT = pathlib.Path(__file__).resolve().parents[1]


class CommandError(Exception):
    """A command of a tree failed; holds the command and the end of what it wrote to stderr."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Tree:
    """`name` tells it from the tree it is compared with; `python` has the requirements installed."""

    name: str
    root: pathlib.Path
    python: pathlib.Path

    def run(self, module: str, *arguments: str, directory: pathlib.Path) -> None:
        """Runs `python -m module` of this tree in `directory`; raises CommandError where it fails."""
        done = subprocess.run(
            [str(self.python), "-m", module, *arguments],
            cwd=directory,
            env={**os.environ, "PYTHONPATH": str(self.root), "CUDA_VISIBLE_DEVICES": ""},
            capture_output=True,
            text=True,
        )
        if done.returncode:
            command = f"{module} {shlex.join(arguments)}"
            raise CommandError(f"{self.name} {self.root}: {command} failed:\n{done.stderr[-4000:]}")


@contextlib.contextmanager
def checked_out(commit: str) -> Iterator[pathlib.Path]:
    """A temporary folder with the files of `commit`; raises InputError where git knows no such commit."""
    archive = subprocess.run(["git", "archive", commit], cwd=ROOT, capture_output=True)
    if archive.returncode:
        raise InputError(
            f"--commit={commit}",
            received=archive.stderr.decode().strip(),
            expected="a commit of this repository",
            action="Fetch it, or name another one; `git log --oneline` lists them.",
        )
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(["tar", "-x", "-C", folder], input=archive.stdout, check=True)
        yield pathlib.Path(folder)
