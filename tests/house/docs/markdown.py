"""Text as Markdown that GitHub shows as it was."""

import re
from collections.abc import Iterable, Iterator, Sequence

_CODE = re.compile(r"(``.+?``|`[^`\n]+`)")


def escaped(text: str) -> str:
    """The text with what Markdown or HTML would take for itself written out, except in `code`."""
    parts = _CODE.split(text)
    return "".join(each if number % 2 else _plain(each) for number, each in enumerate(parts))


def _plain(text: str) -> str:
    text = re.sub(r"([*~]|(?<=\])\()", r"\\\1", text).replace(
        "<", "&lt;"
    )  # [batch] is no link, [a](b) is one
    return re.sub(r"(?<!\w)_|_(?!\w)", r"\\_", text)  # inside a word it is nothing special


def code(text: str) -> str:
    """The text as code, where it may hold backticks itself."""
    if "`" not in text:
        return f"`{text}`"
    return f"`` {text} ``"


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    """Lines of a table; cells are Markdown already."""
    yield _row(head)
    yield _row(["---"] * len(head))
    yield from map(_row, rows)


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(' '.join(cell.split()).replace('|', chr(92) + '|') for cell in cells)} |"
