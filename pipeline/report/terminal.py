"""Sections as lines for a terminal, without characters that control it; also the one way to lay out
columns.
"""

import re
import shutil
import sys
import textwrap
from collections.abc import Collection, Iterator, Sequence

from pipeline.base.errors import printable
from pipeline.report.formats import shortened
from pipeline.report.section import Cell, Code, Facts, Finding, Note, Section, Table, Tiles

_LINE = 110  # characters in a line of dense facts
_VALUE = 60  # characters of a value in such a line
_MOST_DENSE = 30
_START = re.compile(r" *(?:- |\S+(?: \S+)*  +)?")  # start of a line: its indent, and the name of a fact
_MARKS = {True: "ok  ", False: "!!  ", None: "    "}


def render(sections: Sequence[Section]) -> str:
    """The sections, with an empty line between them. If a section has a verdict, all titles leave room for a
    mark.

    Where stdout is a terminal, sentences and facts are broken at words to its width.
    """
    is_marked = any(section.good is not None for section in sections)
    columns = width()
    return "\n\n".join("\n".join(map(printable, _lines(section, is_marked, columns))) for section in sections)


def width() -> int | None:
    """Returns the columns of the terminal that stdout is; None where it is none."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


def broken(text: str) -> str:
    """Returns sentences and lists, broken at words to the width of the terminal if there is one."""
    columns = width()
    if columns is None:
        return text
    return "\n".join(part for line in text.split("\n") for part in _broken(line, columns))


def aligned(rows: Sequence[Sequence[object]], *, numbers: Collection[int] = ()) -> list[str]:
    """A line for each row, with cells below each other; columns in `numbers` are aligned to the right.

    A row with more or fewer cells than the first one, such as a reason in place of numbers, may stick out.
    """
    texts = [[printable(str(cell)) for cell in row] for row in rows]
    whole = [row for row in texts if len(row) == len(texts[0])]
    widths = [max(map(len, column)) for column in zip(*whole, strict=True)]
    return [
        "  ".join(
            cell.rjust(width) if at in numbers else cell.ljust(width)
            for at, (cell, width) in enumerate(zip(row, [*widths, *[0] * len(row)], strict=False))
        ).rstrip()
        for row in texts
    ]


def _lines(section: Section, is_marked: bool, columns: int | None) -> Iterator[str]:
    if section.title:
        yield (_MARKS[section.good] if is_marked else "") + section.title
    indent = "    " if is_marked else "  " if section.title else ""
    for part in section.parts:
        for line in _part(part):
            # Tables are not broken, nor is code, which readers copy.
            is_whole = columns is None or isinstance(part, Table | Code)
            yield from [indent + line] if is_whole else _broken(indent + line, columns)


def _broken(line: str, columns: int) -> list[str]:
    """Lines of `columns` characters at most; a fact continues below its value."""
    hang = len(_START.match(line)[0])
    return textwrap.wrap(
        line,
        columns,
        subsequent_indent=" " * (hang if hang < columns // 2 else 2),
        break_long_words=False,
        break_on_hyphens=False,
    ) or [line]


def _part(part: object) -> list[str]:
    """The lines of a part; none for a part that only a page can show."""
    if isinstance(part, Table):
        return _table(part)
    if isinstance(part, Facts):
        return _dense(part) if part.is_dense else aligned(part.known)
    if isinstance(part, Tiles):
        return [", ".join(f"{name} {value}" for value, name in part.items)]
    if isinstance(part, Finding):
        return [f"  - {part}"]
    if isinstance(part, Code | Note | Cell):
        return str(part.text).splitlines()
    return [part] if type(part) is str else []  # Markup is a subclass of str, and not for terminals


def _dense(facts: Facts) -> list[str]:
    """`name=value` pairs, as many on a line as fit."""
    known = [(name, str(value)) for name, value in facts.known]
    pairs = [f"{shortened(name, _VALUE)}={shortened(value, _VALUE)}" for name, value in known[:_MOST_DENSE]]
    more = len(known) - len(pairs)
    lines = [""] if pairs else []
    for pair in [*pairs, *([f"… and {more:,} more: a page has all"] if more else [])]:
        if lines[-1] and len(lines[-1]) + len(pair) > _LINE:
            lines.append("")
        lines[-1] += f"{pair}  "
    return [line.rstrip() for line in lines]


def _table(table: Table) -> list[str]:
    head = [table.header] if table.header else []
    lines = aligned([*head, *table.rows], numbers=table.numbers)
    for at in sorted(table.rules, reverse=True):
        lines.insert(len(head) + at, "─" * len(lines[0]))
    return ([table.title] if table.title else []) + lines
