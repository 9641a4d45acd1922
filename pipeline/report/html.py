"""Sections as one HTML page that needs no other file, and runs no code, whatever a value holds."""

import html
import itertools
import pathlib
from collections.abc import Iterable, Sequence

from pipeline.report.section import Cell, Code, Facts, Figure, Finding, Folded, Note, Section, Table, Tiles

_STYLE = pathlib.Path(__file__).parent / "style.css"
_MOST_DENSE = 24  # facts that are shown at once, if there are many
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"


class Markup(str):
    """Text that is HTML already, and so is not escaped again."""

    __slots__ = ()


def tag(name: str, *children: object, **attributes: object) -> Markup:
    """`<name attributes>children</name>`; every child and attribute that is not Markup is escaped.

    Underscores in attribute names become dashes (`stroke_width`), a trailing one is removed (`class_`).
    Children and attributes that are None are left out; floats are cut to a tenth, enough for a pixel.
    """
    opening = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{escape(value)}"'
        for key, value in attributes.items()
        if value is not None
    )
    return Markup(f"<{name}{opening}>{join(*children)}</{name}>")


def join(*children: object) -> Markup:
    """Children one after the other; those that are None are left out."""
    return Markup("".join(escape(child) for child in children if child is not None))


def escape(value: object) -> Markup:
    """Returns Markup unchanged, a Cell as markup, and any other value as text that cannot become a tag."""
    if isinstance(value, Markup):
        return value
    if isinstance(value, Cell):
        return _cell(value)
    if isinstance(value, float):
        return Markup(f"{value:.1f}".removesuffix(".0"))
    return Markup(html.escape(str(value)))


def page(head: Section, sections: Iterable[Section | None]) -> Markup:
    """The whole page; the title of `head` is also the title of the document."""
    meta = Markup(
        '<meta charset="utf-8"><meta name="viewport" content="width=device-width,initial-scale=1">'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">'
    )
    header = tag("header", tag("h1", head.title), blocks(head.parts))
    body = tag("body", header, tag("main", *(_section(section) for section in sections if section)))
    top = tag("head", meta, tag("title", head.title), style())
    return Markup(f"<!doctype html>\n{tag('html', top, body, lang='en')}\n")


def style() -> Markup:
    """The style sheet of all pages and figures, light or dark like the reader's settings."""
    return tag("style", Markup(_STYLE.read_text()))


def blocks(parts: Iterable[object]) -> Markup:
    """Parts of a section in order: figures that follow each other stand in a grid, findings in a list."""
    known = (part for part in parts if part is not None)
    return join(*(_joined(kind, group) for kind, group in itertools.groupby(known, key=_kind)))


def _section(section: Section) -> Markup:
    mark = {True: "good", False: "bad", None: None}[section.good]
    classes = " ".join(filter(None, (section.style, mark))) or None
    title = tag("h2", section.title) if section.title else None
    return tag("section", title, blocks(section.parts), class_=classes, id=section.id)


def _kind(part: object) -> type | None:
    """Returns the key of a part; neighbours with the same key are put together."""
    if isinstance(part, Finding):
        return Finding
    return Figure if isinstance(part, Figure | tuple) else None


def _joined(kind: type | None, parts: Iterable[object]) -> Markup:
    if kind is Finding:
        return tag("ul", *map(_finding, parts))
    if kind is Figure:
        return tag("div", *map(_block, parts), class_="figures")
    return join(*map(_block, parts))


def _block(part: object) -> Markup:
    for kind, render in _RENDER.items():
        if isinstance(part, kind):
            return render(part)
    raise TypeError(f"no part of a section: {part!r}")


def _cell(cell: Cell) -> Markup:
    note = tag("small", cell.note) if cell.note else None
    if cell.link is not None:
        return join(tag("a", cell.text, href=cell.link, class_=cell.style), note)
    return join(tag("span", cell.text, class_=cell.style) if cell.style else cell.text, note)


def _finding(finding: Finding) -> Markup:
    return tag("li", *([tag("b", f"{finding.text} "), finding.advice] if finding.advice else [finding.text]))


def _table(table: Table) -> Markup:
    shown = table.rows if table.open_rows is None else table.rows[: table.open_rows]
    rest = table.rows[len(shown) :]
    folded = tag("details", tag("summary", f"{len(rest):,} more {table.more}"), _grid(table, rest))
    return join(
        tag("h3", table.title) if table.title else None, _grid(table, shown), folded if rest else None
    )


def _grid(table: Table, rows: Sequence[Sequence[object]]) -> Markup:
    """A table that scrolls sideways where the screen is narrow."""

    def line(kind: str, cells: Sequence[object]) -> Markup:
        styled = ((cell, "n" if at in table.numbers else None) for at, cell in enumerate(cells))
        return tag("tr", *(tag(kind, cell, class_=style) for cell, style in styled))

    head = tag("thead", line("th", table.header)) if table.header else None
    return tag("div", tag("table", head, tag("tbody", *(line("td", row) for row in rows))), class_="scroll")


def _facts(facts: Facts) -> Markup:
    items = [tag("div", tag("dt", name), tag("dd", value)) for name, value in facts.known]
    most = _MOST_DENSE if facts.is_dense else len(items)
    folded = tag("details", tag("summary", f"{len(items) - most:,} more"), tag("dl", *items[most:]))
    title = tag("h3", facts.title) if facts.title and items else None
    return join(title, tag("dl", *items[:most]), folded if items[most:] else None)


def _figure(figure: Figure) -> Markup:
    note = tag("span", figure.note) if figure.note else None
    return tag("figure", tag("figcaption", tag("b", figure.title), note), figure.drawing)


def _tiles(tiles: Tiles) -> Markup:
    each = (tag("div", tag("strong", value), tag("span", name), class_="tile") for value, name in tiles.items)
    return tag("div", *each, class_="tiles")


def _code(code: Code) -> Markup:
    return join(tag("h3", code.title) if code.title else None, tag("pre", code.text))


_RENDER = {
    Markup: lambda part: part,
    str: lambda part: tag("p", part),
    Cell: lambda part: tag("p", part),
    Note: lambda part: tag("p", part.text, class_="note"),
    Table: _table,
    Facts: _facts,
    Figure: _figure,
    Tiles: _tiles,
    Code: _code,
    Folded: lambda part: tag("details", tag("summary", part.title), blocks(part.parts)),
    tuple: lambda parts: tag("div", blocks(parts)),
}
