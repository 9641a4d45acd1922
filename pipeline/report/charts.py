"""The report's large figures: curves over steps, the ROC curve, predicted against actual values."""

import dataclasses
import math
from collections.abc import Callable, Sequence

import numpy as np

from pipeline.report import formats
from pipeline.report.axes import Axes, finite_range, ticks
from pipeline.report.html import Markup, join, tag

MAX_POINTS = 300  # more than a figure has pixels for


@dataclasses.dataclass(frozen=True, kw_only=True)
class Series:
    """One line: `style` is a class of the page's style sheet, `first` or `second`."""

    name: str
    xs: Sequence[float]
    ys: Sequence[float]
    style: str = "first"
    dots: bool = False


def line_chart(
    title: str,
    series: Sequence[Series],
    *,
    y_format: Callable = formats.number,
    y_range: tuple[float, float] | None = None,
    x_title: str = "step",
) -> Markup:
    """Lines over whole numbers, such as steps, at most MAX_POINTS each (means of neighbours beyond that)."""
    drawn = [_thinned(one) for one in series if len(one.xs)]
    axes = Axes(
        x_range=(0.0, max((max(one.xs) for one in drawn), default=1.0)),
        y_range=y_range or _with_margin(finite_range(*(one.ys for one in drawn))),
    )
    frame = axes.frame(x_title=x_title, x_format=_whole, y_format=y_format)
    drawing = axes.svg(frame, *(_line(axes, one) for one in drawn), label=title)
    return figure(title, drawing, _legend(drawn, y_format))


def _whole(tick: float) -> str:
    """Nothing at a tick between whole numbers."""
    return formats.number(tick) if tick.is_integer() else ""


def roc_curve(
    false_positive_rate: Sequence[float], true_positive_rate: Sequence[float], auc: float
) -> Markup:
    """The ROC curve over the diagonal of a model that guesses."""
    axes = Axes(x_range=(0.0, 1.0), y_range=(0.0, 1.0), height=340.0)
    outline = axes.path([*false_positive_rate, 1.0], [*true_positive_rate, 0.0])
    drawing = axes.svg(
        axes.frame(
            x_title="false positive rate",
            y_title="true positive rate",
            x_format=formats.number,
            y_format=formats.number,
        ),
        tag("path", d=outline, class_="area"),
        tag("path", d=axes.path([0, 1], [0, 1]), class_="line guess"),
        tag("path", d=axes.path(false_positive_rate, true_positive_rate), class_="line first"),
        label="ROC curve",
    )
    return figure("ROC curve", drawing, f"area {formats.fraction(auc)}; dashed: a guess")


def predicted_vs_actual(pairs: Sequence[tuple[float, float]]) -> Markup:
    """A dot an example, over the line on which the prediction is exact; pairs are (predicted, actual)."""
    predicted, actual = np.asarray(pairs, dtype=np.float64).reshape(-1, 2).T
    bounds = _with_margin(finite_range(predicted, actual))
    axes = Axes(x_range=bounds, y_range=bounds, height=340.0)
    drawing = axes.svg(
        axes.frame(x_title="actual", y_title="predicted", x_format=formats.number, y_format=formats.number),
        tag("path", d=axes.path(bounds, bounds), class_="line guess"),
        tag("path", d=axes.dots(actual, predicted), class_="points"),
        label="predicted against actual values",
    )
    return figure("Predicted against actual", drawing, "dashed: exact predictions")


def figure(title: str, drawing: Markup, note: object = None) -> Markup:
    """A drawing under its title, with a note beside the title."""
    caption = tag("figcaption", tag("b", title), tag("span", note) if note else None)
    return tag("figure", caption, drawing)


def _line(axes: Axes, series: Series) -> Markup:
    # A line of one point has no length, so it is shown as a dot.
    dots = axes.dots(series.xs, series.ys) if series.dots or len(series.xs) == 1 else None
    return join(
        tag("path", d=axes.path(series.xs, series.ys), class_=f"line {series.style}"),
        tag("path", d=dots, class_=f"dots {series.style}") if dots else None,
    )


def _legend(series: Sequence[Series], y_format: Callable) -> Markup:
    """Names with the last value: what the eye looks for at the right end of a curve."""
    return join(
        *(
            tag("span", tag("i", class_=f"key {one.style}"), f"{one.name} {y_format(one.ys[-1])}")
            for one in series
        )
    )


def _thinned(series: Series) -> Series:
    chunks = min(MAX_POINTS, len(series.xs))
    means = [
        [float(np.mean(chunk)) for chunk in np.array_split(np.asarray(values, dtype=np.float64), chunks)]
        for values in (series.xs, series.ys)
    ]
    return dataclasses.replace(series, xs=means[0], ys=[*means[1][:-1], series.ys[-1]])


def _with_margin(bounds: tuple[float, float]) -> tuple[float, float]:
    margin = (bounds[1] - bounds[0]) * 0.04
    return bounds[0] - margin, bounds[1] + margin


# --- The report's small figures, one a table row: histogram, shares of values, missing fraction.


BINS = 24
WIDTH, HEIGHT = 144, 30


@dataclasses.dataclass(frozen=True, kw_only=True)
class Bins:
    """Equally wide bins between `low` and `high`, and the share of the values in each, float64 [bins]."""

    low: float
    high: float
    shares: np.ndarray


def equal_bins(quantiles: Sequence[float], bins: int = BINS) -> Bins:
    """Equally wide bins, from the boundaries of equally filled ones.

    They reach half the inner spread beyond the outermost inner boundaries, like the whiskers of a box plot,
    so that one outlier does not press all bars into one.
    """
    bounds = np.asarray(quantiles, dtype=np.float64)
    reach = 0.5 * (bounds[-2] - bounds[1])
    low, high = max(bounds[0], bounds[1] - reach), min(bounds[-1], bounds[-2] + reach)
    if not low < high:
        low, high = bounds[0], bounds[-1]
    edges = np.linspace(low, high, bins + 1)
    starts, ends = bounds[:-1, None], bounds[1:, None]  # (quantile bins, 1)
    widths = np.maximum(ends - starts, np.finfo(np.float64).tiny)
    covered = np.clip(np.minimum(ends, edges[1:]) - np.maximum(starts, edges[:-1]), 0, None) / widths
    # A boundary that repeats is one value held by many examples: all of it falls into one bin.
    points = (starts == ends)[:, 0]
    home = np.clip(np.searchsorted(edges, bounds[:-1], side="right") - 1, 0, bins - 1)
    inside = (bounds[:-1] >= low) & (bounds[:-1] <= high)
    covered[points] = 0.0
    covered[points & inside, home[points & inside]] = 1.0
    return Bins(low=float(low), high=float(high), shares=covered.sum(axis=0) / (len(bounds) - 1))


def histogram(quantiles: Sequence[float]) -> Markup | None:
    """Bars as one path; None where there is nothing to draw."""
    if len(quantiles) < 2 or not np.all(np.isfinite(quantiles)) or quantiles[0] == quantiles[-1]:
        return None
    bins = equal_bins(quantiles)
    heights = bins.shares / bins.shares.max() * (HEIGHT - 1)
    step = WIDTH / BINS
    bars = "".join(
        f"M{i * step:g} {HEIGHT}v{-max(height, 1):.1f}h{step - 1:g}V{HEIGHT}"
        for i, height in enumerate(heights)
        if height > 0
    )
    hint = tag("title", f"{formats.number(bins.low)} … {formats.number(bins.high)}")
    return tag(
        "svg", hint, tag("path", d=bars), viewBox=f"0 0 {WIDTH} {HEIGHT}", class_="histogram", role="img"
    )


def value_shares(values: Sequence[tuple[str, int]], total: int, *, limit: int) -> Markup:
    """The most frequent values as horizontal bars with their share of `total`, then the rest in one line."""
    shown = list(values[:limit])
    rows = [_bar(formats.shortened(value, 28) or "(empty)", n / max(1, total)) for value, n in shown]
    if len(values) > limit:
        rest = (total - sum(n for _, n in shown)) / max(1, total)
        rows.append(_bar(f"{len(values) - limit:,} more", rest, style="rest"))
    return tag("div", *rows, class_="shares")


def meter(fraction: float) -> Markup:
    """A fraction as text over a bar that is empty at 0 and full at 1."""
    if fraction == 0:
        return tag("span", "0 %", class_="none")
    return _bar(formats.percent(fraction), fraction, style="missing", with_share=False)


def _bar(text: str, fraction: float, *, style: str = "value", with_share: bool = True) -> Markup:
    share = tag("em", formats.percent(fraction)) if with_share else None
    fill = tag("i", style=f"width:{100 * min(1.0, fraction):.1f}%")
    return tag("div", fill, tag("span", text), share, class_=f"bar {style}")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Share:
    """A part of a bar: its fraction of the whole, and its class in the page's style sheet."""

    name: str
    fraction: float
    style: str


def stacked(parts: Sequence[Share]) -> Markup:
    """One bar of several parts, with a legend."""
    fills = (
        tag("i", style=f"width:{100 * part.fraction:.2f}%", class_=part.style, title=part.name)
        for part in parts
    )
    keys = (
        tag("span", tag("i", class_=f"key {part.style}"), f"{part.name} {formats.percent(part.fraction)}")
        for part in parts
    )
    return join(tag("div", *fills, class_="stack"), tag("p", *keys, class_="legend"))


# --- The confusion matrix as a picture: right answers in one colour, mistakes in another.


HEAT_MAP_WIDTH = 420.0
_MAX_LABELLED = 20  # classes beyond which neither counts nor names fit
NAME_CHARACTERS = 9


def confusion_matrix(counts: np.ndarray, classes: Sequence[str]) -> Markup:
    """Rows are actual classes, columns predicted ones; a cell's colour is the cube root of its row's share.

    The cube root keeps a class visible that is mistaken once in a hundred. Up to 20 classes, counts are
    written into the cells; beyond, only cells that are not zero are drawn, each with a hint.

    Args:
      counts: int64 [classes, classes], (actual, predicted).
    """
    grid = _Grid(classes=tuple(formats.shortened(name, NAME_CHARACTERS) for name in classes))
    shares = counts / np.maximum(1, counts.sum(axis=1, keepdims=True))
    cells = [
        grid.square(row, column, float(shares[row, column]), _hint(counts, shares, classes, row, column))
        for row, column in np.argwhere(counts > 0).tolist()
    ]
    texts = grid.counts(counts, shares) + grid.names() if grid.labelled else []
    view = f"0 0 {HEAT_MAP_WIDTH:.0f} {grid.height:.0f}"
    svg = tag(
        "svg", grid.backdrop(), *cells, *texts, *grid.titles(), viewBox=view, role="img", class_="matrix"
    )
    note = "colour: share of the actual class" + ("" if grid.labelled else "; point at a cell to read it")
    return figure("Confusion matrix", svg, note)


def _hint(counts: np.ndarray, shares: np.ndarray, classes: Sequence[str], row: int, column: int) -> str:
    share = formats.percent(float(shares[row, column]))
    return f"{classes[row]} → {classes[column]}: {counts[row, column]:,} ({share} of {classes[row]})"


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Grid:
    """Where things stand: a square of cells right of the row names, above the column names."""

    classes: tuple[str, ...]

    @property
    def labelled(self) -> bool:
        return len(self.classes) <= _MAX_LABELLED

    @property
    def left(self) -> float:
        return 36.0 + self._longest_name if self.labelled else 24.0

    @property
    def cell(self) -> float:
        return (HEAT_MAP_WIDTH - self.left) / len(self.classes)

    @property
    def side(self) -> float:
        return HEAT_MAP_WIDTH - self.left

    @property
    def height(self) -> float:
        names = (0.7 * self._longest_name if self._tilted else 0.0) + 20.0
        return self.side + (names if self.labelled else 0.0) + 22.0

    @property
    def _longest_name(self) -> float:
        return 7.0 * max(map(len, self.classes))  # pixels a character of 12 pixels takes

    @property
    def _tilted(self) -> bool:
        return self._longest_name > self.cell

    def backdrop(self) -> Markup:
        return tag("rect", x=self.left, y=0, width=self.side, height=self.side, class_="empty")

    def square(self, row: int, column: int, share: float, hint: str) -> Markup:
        # Without gaps where cells are a few pixels wide.
        side = f"{self.cell - 1.0 * self.labelled:.2f}"
        return tag(
            "rect",
            tag("title", hint),
            x=f"{self.left + column * self.cell:.2f}",
            y=f"{row * self.cell:.2f}",
            width=side,
            height=side,
            fill_opacity=f"{math.cbrt(share):.2f}",
            class_="right" if row == column else "wrong",
        )

    def counts(self, counts: np.ndarray, shares: np.ndarray) -> list[Markup]:
        longest = len(f"{counts.max():,}")
        size = max(6.0, min(15.0, self.cell * 0.5, self.cell * 1.4 / longest))
        return [
            tag(
                "text",
                f"{counts[row, column]:,}",
                x=self.left + (column + 0.5) * self.cell,
                y=(row + 0.5) * self.cell + size * 0.35,
                style=f"font-size:{size:.1f}px",
                # White on the strong colours, ink on the pale ones.
                class_="count strong" if math.cbrt(shares[row, column]) > 0.6 else "count",
            )
            for row, column in np.argwhere(counts > 0).tolist()
        ]

    def names(self) -> list[Markup]:
        return [join(self._row_name(i), self._column_name(i)) for i in range(len(self.classes))]

    def _row_name(self, i: int) -> Markup:
        return tag("text", self.classes[i], x=self.left - 6, y=(i + 0.5) * self.cell + 4, class_="end")

    def _column_name(self, i: int) -> Markup:
        x, y = self.left + (i + 0.5) * self.cell, self.side + 16.0
        turn = f"rotate(-45 {x:.1f} {y:.1f})" if self._tilted else None
        return tag("text", self.classes[i], x=x, y=y, class_="end" if turn else "middle", transform=turn)

    def titles(self) -> list[Markup]:
        across = {"x": -self.side / 2, "y": 11.0, "transform": "rotate(-90)"}
        below = {"x": self.left + self.side / 2, "y": self.height - 4}
        return [
            tag("text", "predicted", **below, class_="middle title"),
            tag("text", "actual", **across, class_="middle title"),
        ]


# --- Numbers with their intervals, one below the other over one axis: the eye sees which of them reach 0.


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
