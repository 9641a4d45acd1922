"""HTML and SVG that cannot be broken by what it shows: text is escaped unless it is markup already."""

import html


class Markup(str):
    """Text that is HTML already, and so is not escaped again."""

    __slots__ = ()


def tag(name: str, *children: object, **attributes: object) -> Markup:
    """`<name attributes>children</name>`; every child and attribute that is not Markup is escaped.

    Underscores in attribute names become dashes (`stroke_width`), a trailing one falls away (`class_`).
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
    """The value as it is where it is Markup; any other as text that cannot become a tag."""
    if isinstance(value, Markup):
        return value
    if isinstance(value, float):
        return Markup(f"{value:.1f}".removesuffix(".0"))
    return Markup(html.escape(str(value)))


def table(header: list[object], rows: list[list[object]], *, numbers: frozenset[int] = frozenset()) -> Markup:
    """A table that scrolls sideways where the screen is narrow; columns in `numbers` align right."""

    def line(kind: str, cells: list[object]) -> Markup:
        align = ("n" if i in numbers else None for i in range(len(cells)))
        return tag("tr", *(tag(kind, cell, class_=c) for cell, c in zip(cells, align, strict=True)))

    head = tag("thead", line("th", header)) if header else None
    body = tag("tbody", *(line("td", row) for row in rows))
    return tag("div", tag("table", head, body), class_="scroll")


def definitions(items: dict[str, object]) -> Markup:
    """Terms with their values, one a line; those that are None are left out."""
    known = ((term, value) for term, value in items.items() if value is not None)
    return tag("dl", *(tag("div", tag("dt", term), tag("dd", value)) for term, value in known))


def folded(summary: object, *children: object) -> Markup:
    """Content that is shown when the reader opens it."""
    return tag("details", tag("summary", summary), *children)
