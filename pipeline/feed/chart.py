"""The feed certificate as a picture: what each stage gives, and what training takes."""

import math
from collections.abc import Sequence

from pipeline.feed.certificate import Certificate
from pipeline.feed.scaling import Line
from pipeline.report import formats
from pipeline.report.html import STYLE, Markup, join, tag

_OWN_STYLE = Markup(
    "svg{background:var(--card);color:var(--ink);font-family:system-ui,sans-serif}"
    "svg .ink{fill:var(--ink)}svg .verdict{font-size:15px;font-weight:650}"
    ".bar-stage{fill:var(--first);fill-opacity:.55}.bar-together{fill:var(--first)}"
    ".bar-limit,.starved{fill:var(--wrong)}svg .fed{fill:var(--first)}"
    ".need{stroke:var(--second);stroke-width:2}svg .needed{fill:var(--second)}"
)

WIDTH, LEFT, RIGHT = 640.0, 110.0, 88.0
TOP, ROW, BAR = 74.0, 30.0, 18.0
_AXIS = 44.0  # below the last row
_CHARACTER = 6.2  # mean width in a 12 pixel font


def feed_page(certificate: Certificate, advice: Sequence[str]) -> Markup:
    """A page that needs nothing but itself."""
    head = tag(
        "head",
        Markup('<meta charset="utf-8"><meta name="viewport" content="width=device-width,initial-scale=1">'),
        tag("title", "Feed certificate"),
        tag("style", Markup(STYLE.read_text()), _OWN_STYLE),
    )
    items = tag("ul", *(tag("li", one) for one in advice)) if advice else None
    body = tag("body", tag("section", tag("h1", "Feed certificate"), _drawing(certificate), items))
    return Markup(f"<!doctype html>\n{tag('html', head, body, lang='en')}\n")


def feed_chart_svg(certificate: Certificate, advice: Sequence[str]) -> Markup:
    """A file of its own, light or dark as its reader is."""
    drawing = _drawing(certificate, tag("style", Markup(STYLE.read_text()), _OWN_STYLE))
    return Markup(f'<?xml version="1.0" encoding="utf-8"?>\n{drawing}\n')


def _drawing(certificate: Certificate, style: Markup | None = None) -> Markup:
    lines = (*certificate.stages, certificate.together, *([certificate.cold] if certificate.cold else []))
    scale = _Scale([line.examples_per_s for line in lines], certificate.demand.examples_per_s)
    bottom = TOP + ROW * len(lines) + 6
    return tag(
        "svg",
        style,
        tag("title", "Examples a second of every stage of the input pipeline"),
        _heading(certificate),
        _grid(scale, bottom),
        *(_bar(scale, certificate, line, TOP + ROW * i) for i, line in enumerate(lines)),
        _need(scale, certificate, bottom),
        tag("text", "examples a second, logarithmic", x=LEFT, y=bottom + 34, class_="title"),
        xmlns="http://www.w3.org/2000/svg",
        viewBox=f"0 0 {WIDTH:.0f} {bottom + _AXIS:.0f}",
        role="img",
        class_="chart",
    )


class _Scale:
    """Examples a second → pixels, by powers of ten from below the slowest to above the fastest."""

    def __init__(self, rates: Sequence[float], needed: float | None) -> None:
        shown = [rate for rate in (*rates, needed) if rate]
        self.first = math.floor(math.log10(min(shown)) - 0.3)
        self.last = max(math.ceil(math.log10(max(shown))), self.first + 1)

    def x(self, rate: float) -> float:
        share = (math.log10(rate) - self.first) / (self.last - self.first)
        return LEFT + share * (WIDTH - LEFT - RIGHT)

    @property
    def ticks(self) -> list[float]:
        every = max(1, (self.last - self.first) // 5)
        return [10.0**power for power in range(self.first, self.last + 1, every)]


def _heading(certificate: Certificate) -> Markup:
    step_ms = certificate.demand.step_ms
    if step_ms is None:
        verdict = f"Feeds steps of {formats.number(certificate.shortest_step_ms)} ms and longer"
        style = "fed"
    else:
        verdict = f"{certificate.verdict}: {certificate.headroom:.2g}x of what training takes"
        style = "fed" if certificate.is_fed else "starved"
    demand = certificate.demand
    what = f"global batch {demand.global_batch:,} on {demand.slice.name}, {certificate.host.cores:g} cores"
    steps = f", steps of {step_ms:g} ms" if step_ms else ""
    return join(
        tag("text", verdict, x=12.0, y=22.0, class_=f"verdict {style}"),
        tag("text", f"{what}{steps}; the limit is {certificate.limiting.name}", x=12.0, y=40.0),
    )


def _grid(scale: _Scale, bottom: float) -> Markup:
    return join(
        *(
            join(
                tag("path", d=f"M{scale.x(tick):.1f} {TOP - 8:.1f}V{bottom:.1f}", class_="grid"),
                tag("text", _short(tick), x=scale.x(tick), y=bottom + 16, class_="middle"),
            )
            for tick in scale.ticks
        )
    )


def _bar(scale: _Scale, certificate: Certificate, line: Line, top: float) -> Markup:
    kind = "together" if line is certificate.together else "stage"
    kind = "limit" if line is certificate.limiting else kind
    end = scale.x(line.examples_per_s)
    cost = f"{formats.number(line.cpu_us)} µs of CPU an example"
    hint = f"{line.name}: {cost}, {formats.number(line.mb_per_s)} MB/s"
    middle = top + BAR / 2 + 4
    return join(
        tag("text", formats.shortened(line.name, 16), x=LEFT - 8, y=middle, class_="end ink"),
        tag(
            "rect",
            tag("title", hint),
            x=LEFT,
            y=top,
            width=max(1.0, end - LEFT),
            height=BAR,
            rx=3.0,
            class_=f"bar-{kind}",
        ),
        tag("text", f"{_short(line.examples_per_s)}/s", x=WIDTH - 12, y=middle, class_="end ink"),
    )


def _need(scale: _Scale, certificate: Certificate, bottom: float) -> Markup | None:
    needed = certificate.demand.examples_per_s
    if needed is None:
        return None
    x, text = scale.x(needed), f"training takes {_short(needed)}/s"
    fits = x + _CHARACTER * len(text) < WIDTH - 12
    return join(
        tag("path", d=f"M{x:.1f} {TOP - 22:.1f}V{bottom:.1f}", class_="need"),
        tag("text", text, x=x + (4 if fits else -4), y=TOP - 12, class_="needed" if fits else "needed end"),
    )


def _short(rate: float) -> str:
    """Three digits: 12.3k, 4.56M."""
    for unit, size in (("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if rate >= size:
            return f"{rate / size:.3g}{unit}"
    return f"{rate:.3g}"
