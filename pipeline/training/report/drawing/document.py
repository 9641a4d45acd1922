"""A page that needs nothing but itself, and runs and loads nothing, whatever a value of the data holds."""

import pathlib

from pipeline.training.report.drawing.markup import Markup, tag

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
