"""Runs the blocks of a document in a copy of the tree, one after the other, and compares what they print."""

import os
import pathlib
import re
import shutil
import subprocess
import sys

from tests.house.docs import documents
from tests.house.docs.documents import Block

_LEFT_OUT = ("tests/",)  # no document needs them, and copying costs time
_MOST_S = 1800  # a hang ends; a busy machine takes six times as long as a quiet one


def copy_tree(directory: pathlib.Path) -> None:
    """Every tracked file but the tests, as a fresh clone has it; and the environment, as `.venv`."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=documents.ROOT, check=True, capture_output=True, text=True,
    ).stdout.splitlines()  # fmt: skip
    for name in listed:
        source = documents.ROOT / name
        if source.is_file() and not name.startswith(_LEFT_OUT):
            (directory / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, directory / name)
    venv = directory / ".venv"
    if not venv.is_symlink():
        venv.symlink_to(sys.prefix)


def failure(
    blocks: tuple[Block, ...], directory: pathlib.Path, *, python: pathlib.Path = pathlib.Path(sys.executable)
) -> str:
    """Runs `blocks` in `directory`; says what is wrong with the first one that fails, or nothing.

    Args:
      python: what `python` stands for in a block.
    """
    printed = ""
    for block in blocks:
        if block.is_run:
            result = run(block, directory, python)
            printed = result.stdout
            if result.returncode:
                return f"{block.where}: exit code {result.returncode}\n{block.text}\n{_end(printed)}"
        elif block.language == documents.OUTPUT and (missing := _missing(block.text, printed)):
            return f"{block.where}: the block before does not print\n  {missing}\nbut\n{_end(printed)}"
    return ""


def run(block: Block, directory: pathlib.Path, python: pathlib.Path) -> subprocess.CompletedProcess:
    is_shell = block.language in documents.SHELL
    program = ["bash", "-euo", "pipefail", "-c"] if is_shell else [python, "-c"]
    return subprocess.run(
        [*program, block.text],
        cwd=directory,
        env=_environment(python),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=_MOST_S,
    )


def _environment(python: pathlib.Path) -> dict[str, str]:
    """The environment, in which `python` finds no module of this tree."""
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    first = (python.parent, pathlib.Path(sys.executable).parent)  # the other programs of the environment
    return kept | {"PATH": os.pathsep.join([*map(str, first), kept["PATH"]])}


def _missing(expected: str, printed: str) -> str:
    """The first line of `expected` that does not come in `printed` after the ones before it."""
    lines = iter(printed.splitlines())
    for wanted in filter(None, (line.rstrip() for line in expected.splitlines())):
        pattern = re.compile(".*".join(map(re.escape, wanted.split("…"))))
        if wanted != "…" and not any(pattern.fullmatch(line.rstrip()) for line in lines):
            return wanted
    return ""


def _end(printed: str) -> str:
    return "\n".join(f"  {line}" for line in printed.splitlines()[-25:])
