"""The feed certificate as a picture: what each stage gives, and what training needs."""

import math
from collections.abc import Mapping, Sequence

from pipeline.feed.certificate import Certificate
from pipeline.feed.scaling import Line
from pipeline.feed.table import measured, sections
from pipeline.report import formats, html
from pipeline.report.axes import Axes, text, ticks
from pipeline.report.charts import row_axes, row_label
from pipeline.report.html import Markup, join, tag
from pipeline.report.section import Cell, Note, Section

WIDTH, LEFT, RIGHT = 640.0, 110.0, 88.0
_TOP, _ROW, _BAR = 74.0, 30.0, 18.0
_CHARACTER = 6.2  # mean width of a character in a 12 pixel font


def page(certificate: Certificate, advice: Sequence[str], origin: Mapping[str, str]) -> Markup:
    """A page in one file that needs no other: the picture, and what a terminal shows."""
    said = Cell(text=" · ".join(origin.values()), style="origin")
    why = (
        Note(text=f"Why the limit is red: {certificate.why_limiting}.") if certificate.why_limiting else None
    )
    head = Section(
        title="Feed certificate", parts=[said, tag("div", _drawing(certificate), class_="scroll"), why]
    )
    return html.page(head, sections(certificate, advice, origin))


def svg(certificate: Certificate) -> Markup:
    """The picture as a file of its own, light or dark like the reader's settings."""
    return Markup(f'<?xml version="1.0" encoding="utf-8"?>\n{_drawing(certificate, html.style())}\n')


def _drawing(certificate: Certificate, style: Markup | None = None) -> Markup:
    lines, needed = measured(certificate), certificate.demand.examples_per_s
    rates = [rate for rate in (*(line.examples_per_s for line in lines), needed) if rate]
    first = math.floor(math.log10(min(rates)) - 0.3)
    # Bounds are powers of ten.
    bounds = (float(first), float(max(math.ceil(math.log10(max(rates))), first + 1)))
    sizes = {"width": WIDTH, "left": LEFT, "right": RIGHT, "top": _TOP, "bottom": 44.0}
    axes = row_axes(len(lines), bounds, row=_ROW, **sizes)
    powers = [tick for tick in ticks(axes.x_range, wanted=5) if tick.is_integer()]
    title = "examples a second, logarithmic"
    return axes.svg(
        style,
        tag("title", "Examples a second of every stage of the input pipeline"),
        _heading(certificate),
        axes.columns(x_title=title, at=powers, x_format=lambda power: _short(10.0**power)),
        *(_bar(axes, certificate, line, at) for at, line in enumerate(lines)),
        _need(axes, needed) if needed else None,
        label="Feed certificate",
        xmlns="http://www.w3.org/2000/svg",
        class_="chart feed",
    )


def _heading(certificate: Certificate) -> Markup:
    demand, step_ms = certificate.demand, certificate.demand.step_ms
    verdict = f"Feeds steps of {formats.number(certificate.shortest_step_ms)} ms and longer"
    if step_ms:
        verdict = f"{certificate.verdict}: {certificate.headroom:.2g}x of what training takes"
    style = "starved" if certificate.is_fed is False else "fed"
    what = f"global batch {demand.global_batch:,} on {demand.slice.name}, {certificate.host.cores:g} cores"
    steps = f", steps of {step_ms:g} ms" if step_ms else ""
    return join(
        text(verdict, x=12.0, y=22.0, style=f"verdict {style}"),
        tag("text", f"{what}{steps}; the limit is {certificate.limiting.name}", x=12.0, y=40.0),
    )


def _bar(axes: Axes, certificate: Certificate, line: Line, at: int) -> Markup:
    kind = "together" if line is certificate.together else "stage"
    kind = "limit" if line is certificate.limiting else kind
    middle, end = axes.y(at + 0.5), axes.x(math.log10(line.examples_per_s))
    cost = f"{formats.number(line.cpu_us)} µs of CPU an example, {formats.number(line.mb_per_s)} MB/s"
    why = certificate.why_limiting if kind == "limit" else None
    hint = tag("title", f"{line.name}: {cost}{f'; the limit: {why}' if why else ''}")
    size = {"width": max(1.0, end - LEFT), "height": _BAR, "rx": 3.0}
    return join(
        row_label(axes, at, line.name),
        tag("rect", hint, x=LEFT, y=middle - _BAR / 2, **size, class_=f"bar-{kind}"),
        text(f"{_short(line.examples_per_s)}/s", x=WIDTH - 12, y=middle + 4, style="end"),
    )


def _need(axes: Axes, needed: float) -> Markup:
    """A line at the rate that training needs, with its name on the side that has room for it."""
    x, name = axes.x(math.log10(needed)), f"training takes {_short(needed)}/s"
    fits = x + _CHARACTER * len(name) < WIDTH - 12
    edges = f"{_TOP - 22:.1f}V{axes.height - axes.bottom:.1f}"
    return join(
        tag("path", d=f"M{x:.1f} {edges}", class_="need"),
        text(name, x=x + (4 if fits else -4), y=_TOP - 12, style="needed" if fits else "needed end"),
    )


def _short(rate: float) -> str:
    """Three digits: 12.3k, 4.56M."""
    for unit, size in (("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if rate >= size:
            return f"{rate / size:.3g}{unit}"
    return f"{rate:.3g}"
