"""A rectangle with two axes: data to pixels, ticks at round numbers, lines that break at NaN."""

import dataclasses
import math
from collections.abc import Callable, Sequence

import numpy as np

from pipeline.report import formats
from pipeline.report.html import Markup, join, tag

# At this width text of 12 stays readable on a phone, where the figure shrinks to about 340 pixels.
WIDTH, HEIGHT = 420.0, 230.0

# Characters that fit left of the axis, and between two ticks below it.
_Y_LABEL, _X_LABEL = 7, 9
_DIGIT = 7.0  # width of a digit, in text of 12 pixels


@dataclasses.dataclass(frozen=True, kw_only=True)
class Axes:
    """Maps data in `x_range` × `y_range` to pixels; if both ends of a range are equal, it is widened."""

    x_range: tuple[float, float]
    y_range: tuple[float, float]
    width: float = WIDTH
    height: float = HEIGHT
    left: float = 60.0
    right: float = 24.0
    top: float = 20.0
    bottom: float = 38.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "x_range", _widened(self.x_range))
        object.__setattr__(self, "y_range", _widened(self.y_range))

    def x(self, values: float | np.ndarray) -> float | np.ndarray:
        """Pixels from the left, for data: a number or float64 [n]."""
        low, high = self.x_range
        return self.left + (values - low) / (high - low) * (self.width - self.left - self.right)

    def y(self, values: float | np.ndarray) -> float | np.ndarray:
        """Pixels from the top, for data: a number or float64 [n]."""
        low, high = self.y_range
        return (
            self.height - self.bottom - (values - low) / (high - low) * (self.height - self.top - self.bottom)
        )

    def path(self, xs: Sequence[float], ys: Sequence[float]) -> str:
        """An SVG path through the points; NaN and infinity leave a gap."""
        parts, command = [], "M"
        for x, y in self._pixels(xs, ys):
            is_drawn = math.isfinite(x) and math.isfinite(y)
            if is_drawn:
                parts.append(f"{command}{x:.1f} {y:.1f}")
            command = "L" if is_drawn else "M"
        return "".join(parts)

    def dots(self, xs: Sequence[float], ys: Sequence[float]) -> str:
        """An SVG path of points: drawn as dots by a round line cap, a tenth of the bytes of circles."""
        finite = ((x, y) for x, y in self._pixels(xs, ys) if math.isfinite(x) and math.isfinite(y))
        return "".join(f"M{x:.1f} {y:.1f}h0" for x, y in finite)

    def frame(
        self,
        *,
        x_title: str,
        y_title: str = "",
        x_format: Callable = formats.number,
        y_format: Callable = formats.number,
    ) -> Markup:
        """Lines at the ticks of the y axis, tick labels and titles."""
        end = self.width - self.right
        at = ticks(self.y_range)
        lines = [
            join(
                tag("path", d=f"M{self.left:.0f} {self.y(tick):.1f}H{end:.0f}", class_="grid"),
                text(label, x=self.left - 6, y=self.y(tick) + 4, style="end"),
            )
            for tick, label in zip(at, tick_labels(at, y_format, _Y_LABEL), strict=True)
        ]
        # The title is above the axis, not along it, where it would run into long tick labels.
        name = text(y_title, x=4, y=10, style="title") if y_title else None
        return join(
            *lines, *self._labels(ticks(self.x_range, wanted=5), x_format), self._title(x_title), name
        )

    def columns(self, *, x_title: str, at: Sequence[float], x_format: Callable = formats.number) -> Markup:
        """Lines from top to bottom at some places of the x axis, their labels, and the title."""
        edges = f"{self.top:.0f}V{self.height - self.bottom:.0f}"
        lines = (tag("path", d=f"M{self.x(tick):.1f} {edges}", class_="grid") for tick in at)
        return join(*lines, *self._labels(at, x_format), self._title(x_title))

    def svg(self, *children: object, label: str, **attributes: object) -> Markup:
        """The picture that holds `children`; `label` is read to those who cannot see it."""
        view = f"0 0 {self.width:.0f} {self.height:.0f}"
        return tag(
            "svg", *children, viewBox=view, role="img", aria_label=label, **{"class_": "chart"} | attributes
        )

    def _labels(self, at: Sequence[float], x_format: Callable) -> list[Markup]:
        y = self.height - self.bottom + 15
        labels = zip(at, tick_labels(at, x_format, _X_LABEL), strict=True)
        return [text(label, x=self.x(tick), y=y, style="middle") for tick, label in labels]

    def _title(self, title: str) -> Markup:
        middle = (self.left + self.width - self.right) / 2
        return text(title, x=middle, y=self.height - 5, style="middle title")

    def _pixels(self, xs: Sequence[float], ys: Sequence[float]) -> zip:
        return zip(self.x(_array(xs)), self.y(_array(ys)), strict=True)


def text(content: object, *, x: float, y: float, style: str, **attributes: object) -> Markup:
    """A text in a picture; `style` is a class of the page's style sheet."""
    return tag("text", content, x=x, y=y, class_=style, **attributes)


def ticks(bounds: tuple[float, float], wanted: int = 4) -> list[float]:
    """Multiples of 1, 2 or 5 times a power of ten inside `bounds`, about `wanted` of them."""
    low, high = bounds
    rough = (high - low) / wanted
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(power * factor for factor in (1, 2, 5, 10) if power * factor >= rough * 0.999)
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [float(f"{i * step:.12g}") for i in range(first, last + 1)]


def label_room(y_range: tuple[float, float], y_format: Callable[[float], str]) -> float:
    """Pixels to the left of an axis: the same for all axes, or more if ticks have many digits."""
    labels = tick_labels(ticks(_widened(y_range)), y_format, _Y_LABEL)
    return max(Axes.left, 12.0 + _DIGIT * max(map(len, labels), default=0))


def finite_range(*arrays: Sequence[float], margin: float = 0.0) -> tuple[float, float]:
    """Smallest and largest finite value, moved apart by `margin` of their distance; (0, 1) if there is
    none.
    """
    values = np.concatenate([_array(values) for values in arrays]) if arrays else np.empty(0)
    values = values[np.isfinite(values)]
    low, high = (float(values.min()), float(values.max())) if values.size else (0.0, 1.0)
    return low - margin * (high - low), high + margin * (high - low)


def tick_labels(at: Sequence[float], write: Callable[[float], str], limit: int) -> list[str]:
    """Labels of mostly up to `limit` characters; a longer number is written with a power of ten, as 1.5e11.

    Ticks that would look alike get enough digits to differ.
    """
    labels = list(map(write, at))
    is_exact = not any(label.startswith(("<", ">")) for label in labels)
    if is_exact:
        pairs = zip(labels, at, strict=True)
        labels = [label if len(label) <= limit else formats.power(tick) for label, tick in pairs]
    told = [label for label in labels if label]
    if is_exact and len(set(told)) == len(told):
        return labels
    percent = any(label.endswith("%") for label in told)
    values = [100 * tick if percent else tick for tick in at]
    for digits in range(17):
        labels = [f"{value:.{digits}f}{' %' * percent}" for value in values]
        if len(set(labels)) == len(labels):
            break
    return labels


def _array(values: Sequence[float]) -> np.ndarray:
    return np.asarray([math.nan if value is None else value for value in values], dtype=np.float64)


def _widened(bounds: tuple[float, float]) -> tuple[float, float]:
    low, high = bounds
    # True also where the ends differ only by rounding, because there would be no tick between them.
    if abs(high - low) > 1e-9 * max(abs(low), abs(high)):
        return low, high
    margin = abs(low) * 0.1 or 0.5
    return low - margin, high + margin
