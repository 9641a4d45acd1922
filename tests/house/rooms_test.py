"""`ls` tells the story: commands and folders at the top, and each folder says what it is for."""

import ast
import pathlib
from collections.abc import Iterator, Sequence

from tests.house.imports import HOUSE, ROOT

PRODUCT = ("beam_jobs", "models", "pipeline")
OF_COMMANDS = ("beam_jobs", "pipeline")  # where only commands and folders stand
MOST_LINES = 5  # of what a folder says of itself


def product() -> list[str]:
    """Every tracked Python file of the product."""
    known = HOUSE.files
    return [path for path in known if path.startswith(tuple(f"{room}/" for room in PRODUCT))]


def violations(paths: Sequence[str], *, commands: Sequence[str]) -> Iterator[str]:
    """What is out of order among `paths`, a line each; `commands` are those that can be run."""
    for folder in dict.fromkeys(str(pathlib.PurePath(path).parent) for path in paths):
        if f"{folder}/__init__.py" not in paths:
            yield f"{folder} has no __init__.py that says what it is for"
    for path in paths:
        folder, _, name = path.rpartition("/")
        if folder in OF_COMMANDS and path not in commands and name != "__init__.py":
            yield f"{path} is no command: move it into a folder of {folder}"


def folders() -> list[str]:
    return [path for path in product() if path.endswith("__init__.py")]


def test_the_house_is_in_order():
    commands = [path for path in product() if HOUSE.is_command(path)]
    assert list(violations(product(), commands=commands)) == []


def test_a_planted_violation_is_named():
    stray = ["pipeline/__init__.py", "pipeline/train.py", "pipeline/helpers.py", "pipeline/odd/one.py"]
    assert list(violations(stray, commands=["pipeline/train.py"])) == [
        "pipeline/odd has no __init__.py that says what it is for",
        "pipeline/helpers.py is no command: move it into a folder of pipeline",
    ]


def test_folders_say_what_they_are_for():
    texts = {path: ast.get_docstring(ast.parse((ROOT / path).read_text())) for path in folders()}
    lines = {path: len([line for line in (text or "").splitlines() if line]) for path, text in texts.items()}
    wrong = [f"{path}: {count} lines" for path, count in lines.items() if not 0 < count <= MOST_LINES]
    assert not wrong, f"expected 1 to {MOST_LINES} lines of docstring:\n" + "\n".join(wrong)
