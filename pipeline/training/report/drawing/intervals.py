"""Numbers with their intervals, one below the other over one axis: the eye sees which of them reach 0."""

import dataclasses
import math
from collections.abc import Sequence

from pipeline.training.report.drawing import formats
from pipeline.training.report.drawing.axes import ticks
from pipeline.training.report.drawing.charts import figure
from pipeline.training.report.drawing.markup import Markup, join, tag

_WIDTH, _ROW, _TOP, _BOTTOM = 520.0, 24.0, 8.0, 36.0
_LABELS, _RIGHT = 190.0, 16.0  # pixels left of the axis and right of it
_LONGEST = 26  # characters of a label
_MARGIN = 0.06


@dataclasses.dataclass(frozen=True, kw_only=True)
class Interval:
    """`style` is a class of the page's style sheet: first, second, or wrong for what is worse."""

    label: str
    low: float
    value: float
    high: float
    style: str = "first"

    @property
    def is_drawn(self) -> bool:
        return all(map(math.isfinite, (self.low, self.value, self.high)))


def interval_chart(
    title: str,
    intervals: Sequence[Interval],
    *,
    x_title: str,
    marks: Sequence[float] = (0.0,),
    note: str = "",
) -> Markup | None:
    """A row for each interval, over dashed lines at `marks`; None where there is nothing to draw."""
    drawn = [each for each in intervals if each.is_drawn]
    if not drawn:
        return None
    scale = _Scale(drawn, marks)
    height = _TOP + _ROW * len(drawn) + _BOTTOM
    bottom = height - _BOTTOM
    parts = [
        *(_tick(scale, tick, bottom) for tick in ticks(scale.bounds, wanted=4)),
        *(
            tag("path", d=f"M{scale.x(mark):.1f} {_TOP:.0f}V{bottom:.0f}", class_="line guess")
            for mark in marks
        ),
        *(_row(scale, each, _TOP + _ROW * (number + 0.5)) for number, each in enumerate(drawn)),
        tag("text", x_title, x=(_LABELS + _WIDTH - _RIGHT) / 2, y=height - 4, class_="middle title"),
    ]
    view = f"0 0 {_WIDTH:.0f} {height:.0f}"
    drawing = tag("svg", *parts, viewBox=view, role="img", aria_label=title, class_="chart intervals")
    return figure(title, drawing, note or None)


class _Scale:
    """Data to pixels from the left."""

    def __init__(self, drawn: Sequence[Interval], marks: Sequence[float]) -> None:
        low = min([*marks, *(each.low for each in drawn)])
        high = max([*marks, *(each.high for each in drawn)])
        spread = (high - low) or abs(low) or 1.0
        self.bounds = (low - _MARGIN * spread, high + _MARGIN * spread)

    def x(self, value: float) -> float:
        low, high = self.bounds
        return _LABELS + (value - low) / (high - low) * (_WIDTH - _LABELS - _RIGHT)


def _tick(scale: _Scale, tick: float, bottom: float) -> Markup:
    x = scale.x(tick)
    return join(
        tag("path", d=f"M{x:.1f} {_TOP:.0f}V{bottom:.0f}", class_="grid"),
        tag("text", formats.number(tick), x=x, y=bottom + 15, class_="middle"),
    )


def _row(scale: _Scale, each: Interval, y: float) -> Markup:
    """The label, the interval as a line, the value as a dot."""
    low, value, high = (scale.x(number) for number in (each.low, each.value, each.high))
    reach = f"{formats.number(each.low)} to {formats.number(each.high)}"
    return tag(
        "g",
        tag("title", f"{each.label}: {formats.number(each.value)} ({reach})"),
        tag("text", formats.shortened(each.label, _LONGEST), x=_LABELS - 10, y=y + 4, class_="end"),
        tag("path", d=f"M{low:.1f} {y:.1f}H{high:.1f}", class_=f"line {each.style}"),
        tag("path", d=f"M{value:.1f} {y:.1f}h0", class_=f"dots {each.style}"),
    )
