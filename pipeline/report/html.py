"""HTML and SVG that cannot be broken by what it shows: text is escaped unless it is markup already."""

import html
import pathlib


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


# --- A page that needs nothing but itself, and runs and loads nothing, whatever a value of the data holds.


STYLE = pathlib.Path(__file__).parent / "style.css"
_ENCODING_AND_WIDTH = Markup(
    '<meta charset="utf-8"><meta name="viewport" content="width=device-width,initial-scale=1">'
)
_POLICY = "default-src 'none'; style-src 'unsafe-inline'"
_PICTURES = "; img-src data:"  # those that stand in the page


def document(
    title: str, header: Markup, *sections: Markup | None, style: str = "", with_pictures: bool = False
) -> Markup:
    """The whole page, its style included.

    Args:
      style: of this page alone, CSS.
    """
    policy = f"{_POLICY}{_PICTURES}" if with_pictures else _POLICY
    head = tag(
        "head",
        _ENCODING_AND_WIDTH,
        Markup(f'<meta http-equiv="Content-Security-Policy" content="{policy}">'),
        tag("title", title),
        tag("style", Markup(STYLE.read_text()), Markup(style)),
    )
    body = tag("body", header, tag("main", *sections))
    return Markup(f"<!doctype html>\n{tag('html', head, body, lang='en')}\n")
