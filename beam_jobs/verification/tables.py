"""Sections as text for a terminal, and as one self-contained HTML page."""

import html
from collections.abc import Sequence

from beam_jobs.verification.findings import Section

_MARK = {True: "ok  ", False: "!!  ", None: "    "}
_CLASS = {True: "good", False: "bad", None: "plain"}
_STYLE = """
:root { color-scheme: light dark; --ink: #17212b; --soft: #5a6775; --line: #dfe5ea; --page: #f4f6f8;
  --card: #fff; --good: #2a7d4f; --bad: #c8402b; }
@media (prefers-color-scheme: dark) { :root { --ink: #e4eaf0; --soft: #93a1af; --line: #2c3742;
  --page: #10161c; --card: #18212a; --good: #56b987; --bad: #ef6a54; } }
body { margin: 0 auto; max-width: 1080px; padding: 16px; background: var(--page); color: var(--ink);
  font: 15px/1.5 system-ui, sans-serif; font-variant-numeric: tabular-nums; }
section { background: var(--card); border: 1px solid var(--line); border-left: 5px solid var(--line);
  border-radius: 10px; padding: 14px 22px; margin-bottom: 14px; }
section.good { border-left-color: var(--good); }
section.bad { border-left-color: var(--bad); }
h1 { font-size: 22px; overflow-wrap: anywhere; }
h2 { font-size: 17px; margin: 0 0 6px; overflow-wrap: anywhere; }
.bad h2 { color: var(--bad); }
p { margin: 4px 0 8px; color: var(--soft); font-size: 13px; overflow-wrap: anywhere; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; }
th { text-align: left; color: var(--soft); font-size: 13px; white-space: nowrap; }
th, td { padding: 4px 20px 4px 0; border-bottom: 1px solid var(--line); vertical-align: top; }
"""


def text(sections: Sequence[Section]) -> str:
    return "\n\n".join("\n".join(_lines(section)) for section in sections)


def page(title: str, sections: Sequence[Section]) -> str:
    body = "\n".join(_section(section) for section in sections)
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width">'
        f"<title>{html.escape(title)}</title><style>{_STYLE}</style></head>\n"
        f"<body><h1>{html.escape(title)}</h1>\n{body}\n</body></html>\n"
    )


def _lines(section: Section) -> list[str]:
    lines = [_MARK[section.good] + section.title]
    if section.note:
        lines.append("    " + section.note)
    table = [section.header, *section.rows] if section.header else []
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    for row in table:
        cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        lines.append("    " + "  ".join(cells).rstrip())
    return lines


def _section(section: Section) -> str:
    note = f"<p>{html.escape(section.note)}</p>" if section.note else ""
    return (
        f'<section class="{_CLASS[section.good]}"><h2>{html.escape(section.title)}</h2>{note}'
        f"{_table(section)}</section>"
    )


def _table(section: Section) -> str:
    if not section.header:
        return ""
    head = _row("th", section.header)
    body = "\n".join(_row("td", row) for row in section.rows)
    return f'<div class="scroll"><table><thead>{head}</thead>\n<tbody>{body}</tbody></table></div>'


def _row(tag: str, cells: Sequence[str]) -> str:
    return "<tr>" + "".join(f"<{tag}>{html.escape(cell)}</{tag}>" for cell in cells) + "</tr>"
