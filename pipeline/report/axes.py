"""A rectangle with two axes: data to pixels, ticks at round numbers, lines that break at NaN."""

import dataclasses
import math
from collections.abc import Callable, Sequence

import numpy as np

from pipeline.report import formats
from pipeline.report.html import Markup, join, tag

# At this width text of 12 stays readable on a phone, where the figure shrinks to about 340 pixels.
WIDTH, HEIGHT = 420.0, 230.0
LEFT, RIGHT, TOP, BOTTOM = 60.0, 24.0, 20.0, 38.0

# Characters that fit left of the axis, and between two ticks below it; a digit of text of 12 has 7 pixels.
_Y_LABEL, _X_LABEL = 7, 9


@dataclasses.dataclass(frozen=True, kw_only=True)
class Axes:
    """Maps data in `x_range` × `y_range` to pixels; equal ends of a range are widened."""

    x_range: tuple[float, float]
    y_range: tuple[float, float]
    width: float = WIDTH
    height: float = HEIGHT

    def __post_init__(self) -> None:
        object.__setattr__(self, "x_range", _widened(self.x_range))
        object.__setattr__(self, "y_range", _widened(self.y_range))

    def x(self, values: float | np.ndarray) -> float | np.ndarray:
        """Pixels from the left of data, a number or float64 [n]."""
        low, high = self.x_range
        return LEFT + (values - low) / (high - low) * (self.width - LEFT - RIGHT)

    def y(self, values: float | np.ndarray) -> float | np.ndarray:
        """Pixels from the top of data, a number or float64 [n]."""
        low, high = self.y_range
        return self.height - BOTTOM - (values - low) / (high - low) * (self.height - TOP - BOTTOM)

    def path(self, xs: Sequence[float], ys: Sequence[float]) -> str:
        """An SVG path through the points; NaN and infinity leave a gap."""
        pixels_x, pixels_y = self.x(_array(xs)), self.y(_array(ys))
        parts, drawing = [], False
        for x, y in zip(pixels_x, pixels_y, strict=True):
            if math.isfinite(x) and math.isfinite(y):
                parts.append(f"{'L' if drawing else 'M'}{x:.1f} {y:.1f}")
            drawing = math.isfinite(x) and math.isfinite(y)
        return "".join(parts)

    def dots(self, xs: Sequence[float], ys: Sequence[float]) -> str:
        """An SVG path of points: drawn as dots by a round line cap, a tenth of the bytes of circles."""
        pairs = zip(self.x(_array(xs)), self.y(_array(ys)), strict=True)
        return "".join(f"M{x:.1f} {y:.1f}h0" for x, y in pairs if math.isfinite(x) and math.isfinite(y))

    def frame(self, *, x_title: str, y_title: str = "", x_format: Callable, y_format: Callable) -> Markup:
        """Grid lines, tick labels and titles."""
        bottom, right = self.height - BOTTOM, self.width - RIGHT
        lines = [
            join(
                tag("path", d=f"M{LEFT:.0f} {self.y(tick):.1f}H{right:.0f}", class_="grid"),
                tag(
                    "text",
                    _fitting(y_format(tick), tick, _Y_LABEL),
                    x=LEFT - 6,
                    y=self.y(tick) + 4,
                    class_="end",
                ),
            )
            for tick in ticks(self.y_range)
        ]
        labels = [
            tag(
                "text",
                _fitting(x_format(tick), tick, _X_LABEL),
                x=self.x(tick),
                y=bottom + 15,
                class_="middle",
            )
            for tick in ticks(self.x_range, wanted=5)
        ]
        titles = (
            tag("text", x_title, x=(LEFT + right) / 2, y=self.height - 5, class_="middle title"),
            # Above its axis, not along it, where long tick labels would run into it.
            tag("text", y_title, x=4, y=10, class_="title") if y_title else None,
        )
        return join(*lines, *labels, *titles)

    def svg(self, *children: object, label: str) -> Markup:
        """The picture that holds `children`; `label` is read to those who cannot see it."""
        view = f"0 0 {self.width:.0f} {self.height:.0f}"
        return tag("svg", *children, viewBox=view, role="img", aria_label=label, class_="chart")


def ticks(bounds: tuple[float, float], wanted: int = 4) -> list[float]:
    """Multiples of 1, 2 or 5 times a power of ten inside `bounds`, about `wanted` of them."""
    low, high = bounds
    rough = (high - low) / wanted
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(power * factor for factor in (1, 2, 5, 10) if power * factor >= rough * 0.999)
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [float(f"{i * step:.12g}") for i in range(first, last + 1)]


def finite_range(*arrays: Sequence[float]) -> tuple[float, float]:
    """Smallest and largest finite value; (0, 1) where there is none."""
    values = np.concatenate([_array(values) for values in arrays]) if arrays else np.empty(0)
    values = values[np.isfinite(values)]
    return (float(values.min()), float(values.max())) if values.size else (0.0, 1.0)


def _fitting(label: str, tick: float, limit: int) -> str:
    """The label, or the tick with a power of ten, 1.5e11, where that is too long."""
    return label if len(label) <= limit else formats.power(tick)


def _array(values: Sequence[float]) -> np.ndarray:
    return np.asarray([math.nan if value is None else value for value in values], dtype=np.float64)


def _widened(bounds: tuple[float, float]) -> tuple[float, float]:
    low, high = bounds
    spread = high - low
    # Also where the ends differ by rounding only: there would be no tick between them.
    if spread > 1e-9 * max(abs(low), abs(high)):
        return low, high
    margin = abs(low) * 0.1 or 0.5
    return low - margin, high + margin
