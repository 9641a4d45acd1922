"""docs/design.md follows a row, a config value and a checkpoint; each hop names a function that exists."""

import ast
import dataclasses
import re
from collections.abc import Iterator

import pytest

from tests.house.docs import documents

PAGE = "docs/design.md"
MOST_HOPS = 15
_LISTS = ("One row", "One config value", "One checkpoint")
_HOP = re.compile(r"^(\d+)\. `([\w./]+\.py)` `([\w.]+)` – ", re.MULTILINE)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Hop:
    number: int
    path: str
    function: str  # `function`, or `Class.method`


def hops(title: str, page: str) -> tuple[Hop, ...]:
    """The hops under a heading of the page."""
    under = page.split(f"\n## {title}\n", 1)[1].split("\n## ", 1)[0]
    return tuple(
        Hop(number=int(number), path=path, function=name) for number, path, name in _HOP.findall(under)
    )


def defined(code: str) -> set[str]:
    """Functions and `Class.method`s of a module."""
    return set(_names(ast.parse(code).body))


def wrong(hop: Hop) -> str:
    """What to change in the page for one hop; empty if it holds."""
    path = documents.ROOT / hop.path
    if not path.is_file():
        return f"{PAGE}, hop {hop.number}: there is no {hop.path}; name the file that has {hop.function} now"
    if hop.function in (found := defined(path.read_text())):
        return ""
    return (
        f"{PAGE}, hop {hop.number}: {hop.path} defines no {hop.function}; name the function that does it"
        f" now, and see that the sentence still holds. It defines {', '.join(sorted(found))}"
    )


def _names(body: list[ast.stmt], prefix: str = "") -> Iterator[str]:
    for node in body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield f"{prefix}{node.name}"
        elif isinstance(node, ast.ClassDef):
            yield from _names(node.body, f"{node.name}.")


@pytest.mark.parametrize("title", _LISTS)
def test_every_hop_names_a_function_that_exists(title):
    followed = hops(title, documents.read(PAGE))
    assert not (found := [text for hop in followed if (text := wrong(hop))]), "\n".join(found)
    assert [hop.number for hop in followed] == list(range(1, len(followed) + 1))
    assert 5 <= len(followed) <= MOST_HOPS


def test_every_numbered_line_is_a_hop():
    page = documents.read(PAGE)
    assert len(re.findall(r"^\d+\. ", page, re.MULTILINE)) == sum(len(hops(each, page)) for each in _LISTS)


def test_a_row_goes_from_a_cell_to_a_prediction():
    first, *_, last = hops("One row", documents.read(PAGE))
    assert first.path.startswith("beam_jobs/sources/")
    assert last.function.endswith("predictions")


def test_what_the_drawing_names_exists():
    text = (documents.ROOT / "docs/design.svg").read_text()
    folders = re.findall(r">((?:[a-z_]+/)+(?:[a-z_]+\.py)?)<", text)
    roots = [documents.ROOT / root for root in ("", "beam_jobs", "pipeline")]
    missing = [name for name in folders if not any((root / name).exists() for root in roots)]
    assert len(folders) >= 10
    assert not missing, f"docs/design.svg names {', '.join(missing)}: draw what is there now"


def test_a_planted_name_is_found():
    assert wrong(Hop(number=3, path="beam_jobs/cells/typed.py", function="parse")) == ""
    assert "there is no beam_jobs/old.py" in wrong(Hop(number=3, path="beam_jobs/old.py", function="parse"))
    assert "defines no parsed" in wrong(Hop(number=3, path="beam_jobs/cells/typed.py", function="parsed"))
