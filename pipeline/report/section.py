"""A section of a report: findings, facts, tables, figures and paragraphs below a title. Other modules render
it.
"""

import dataclasses
from collections.abc import Collection, Mapping, Sequence


@dataclasses.dataclass(frozen=True, kw_only=True)
class Finding:
    """A finding that a careful reader should notice, and what to do about it."""

    text: str
    advice: str = ""

    def __str__(self) -> str:
        return f"{self.text} {self.advice}".rstrip()


@dataclasses.dataclass(frozen=True, kw_only=True)
class Cell:
    """Text that a page links, styles or explains; a terminal shows only the text."""

    text: object
    note: str = ""  # a note in small letters beside or below the text
    link: str | None = None
    style: str | None = None  # a class of the page's style sheet

    def __str__(self) -> str:
        return str(self.text)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Facts:
    """Names with their values, one on each line; names whose value is None or empty are left out.

    Attributes:
      is_dense: whether there are many facts: a terminal puts them beside each other, a page folds most of
        them away.
    """

    items: Mapping[str, object] | Sequence[tuple[str, object]]
    title: str = ""
    is_dense: bool = False

    @property
    def known(self) -> list[tuple[str, object]]:
        """The names that have a value."""
        pairs = self.items.items() if isinstance(self.items, Mapping) else self.items
        return [(name, value) for name, value in pairs if value not in (None, "")]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Table:
    """Rows below a header. Cells are text, Cells, or markup of a page.

    Attributes:
      numbers: columns that are aligned to the right.
      rules: rows above which a terminal draws a line.
      open_rows: how many rows a page shows at once; it folds the others away under the title `more`.
    """

    rows: Sequence[Sequence[object]]
    header: Sequence[str] = ()
    numbers: Collection[int] = ()
    title: str = ""
    rules: Collection[int] = ()
    open_rows: int | None = None
    more: str = "rows"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Figure:
    """A drawing under its title, with a note beside it. Only pages show it."""

    title: str
    drawing: object
    note: object = ""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Tiles:
    """The few values that a reader looks for first, each with its name."""

    items: Sequence[tuple[object, str]]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Note:
    """A paragraph in small letters."""

    text: object


@dataclasses.dataclass(frozen=True, kw_only=True)
class Code:
    """Lines to copy, such as a command."""

    text: str
    title: str = ""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Folded:
    """Parts that a page shows when the reader opens them."""

    title: str
    parts: Sequence[object]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Section:
    """Parts below a title.

    Attributes:
      parts: the dataclasses above, and texts, which are paragraphs; None is left out. A tuple of parts is
        placed beside figures as one part.
      good: the verdict of the section; None where it has none.
      style, id: class and anchor on a page.
    """

    title: str = ""
    parts: Sequence[object] = ()
    good: bool | None = None
    style: str | None = None
    id: str | None = None
