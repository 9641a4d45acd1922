"""Figures: curves, squares, rows over one axis, the confusion matrix, and small ones for table cells."""

import dataclasses
import math
from collections.abc import Callable, Iterator, Sequence

import numpy as np

from pipeline.report import formats
from pipeline.report.axes import Axes, finite_range, label_room, text, ticks
from pipeline.report.html import Markup, join, tag
from pipeline.report.section import Figure

MAX_POINTS = 300  # points of a line; a figure has no pixels for more
BINS = 24  # bins of a histogram
_CLASS_CHARACTERS = 9  # characters of a class's name, beside the confusion matrix
_HISTOGRAM = (144, 30)
_MATRIX = 420.0
_MAX_LABELLED = 20  # with more classes, neither counts nor names fit
_LONGEST_LABEL = 26  # characters to the left of a row
_MARGIN = 0.04  # part of a range that is left free around the drawing


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
    from_zero: bool = False,
    x_title: str = "step",
) -> Figure | None:
    """Lines over whole numbers, such as steps, at most MAX_POINTS each (means of neighbours beyond that).

    None where there is no point. The legend has the last value of each line, for which readers look.
    """
    drawn = [_thinned(one) for one in series if len(one.xs)]
    if not drawn:
        return None
    y_range = finite_range(*(one.ys for one in drawn), margin=0.0 if from_zero else _MARGIN)
    if from_zero:
        y_range = (0.0, max(1.1 * y_range[1], 0.1))
    left = label_room(y_range, y_format)
    axes = Axes(x_range=(0.0, max(max(one.xs) for one in drawn)), y_range=y_range, left=left)
    frame = axes.frame(x_title=x_title, x_format=_whole, y_format=y_format)
    keys = (tag("span", _key(one.style), f"{one.name} {y_format(one.ys[-1])}") for one in drawn)
    drawing = axes.svg(frame, *(_line(axes, one) for one in drawn), label=title)
    return Figure(title=title, drawing=drawing, note=join(*keys))


def roc_curve(
    false_positive_rate: Sequence[float], true_positive_rate: Sequence[float], auc: float
) -> Figure:
    """The ROC curve over the diagonal of a model that guesses."""
    axes = Axes(x_range=(0.0, 1.0), y_range=(0.0, 1.0), height=340.0)
    outline = axes.path([*false_positive_rate, 1.0], [*true_positive_rate, 0.0])
    drawing = axes.svg(
        axes.frame(x_title="false positive rate", y_title="true positive rate"),
        tag("path", d=outline, class_="area"),
        tag("path", d=axes.path([0, 1], [0, 1]), class_="line guess"),
        tag("path", d=axes.path(false_positive_rate, true_positive_rate), class_="line first"),
        label="ROC curve",
    )
    return Figure(title="ROC curve", drawing=drawing, note=f"area {formats.fraction(auc)}; dashed: a guess")


def predicted_vs_actual(pairs: Sequence[tuple[float, float]]) -> Figure:
    """A dot for each example, over the line of exact predictions; pairs are (predicted, actual)."""
    predicted, actual = np.asarray(pairs, dtype=np.float64).reshape(-1, 2).T
    bounds = finite_range(predicted, actual, margin=_MARGIN)
    axes = Axes(x_range=bounds, y_range=bounds, height=340.0)
    title = "Predicted against actual"
    drawing = axes.svg(
        axes.frame(x_title="actual", y_title="predicted"),
        tag("path", d=axes.path(bounds, bounds), class_="line guess"),
        tag("path", d=axes.dots(actual, predicted), class_="points"),
        label=title,
    )
    return Figure(title=title, drawing=drawing, note="dashed: exact predictions")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Dots:
    """Dots of a chart; the one at `marked` stands out."""

    xs: Sequence[float]
    ys: Sequence[float]
    marked: int


def dot_chart(
    title: str,
    dots: Dots,
    *,
    x_title: str,
    y_title: str,
    is_log: bool = False,
    names: Sequence[str] = (),
) -> Figure:
    """A dot for each pair of numbers.

    Args:
      is_log: whether the x axis is logarithmic; then all x are above 0.
      names: what x = 0, 1, … are called; none: x are numbers.
    """
    xs = np.log10(dots.xs) if is_log else np.asarray(dots.xs, dtype=np.float64)
    bounds = (-0.5, len(names) - 0.5) if names else finite_range(xs, margin=_MARGIN)
    y_range = finite_range(dots.ys, margin=_MARGIN)
    left = label_room(y_range, formats.number)
    axes = Axes(x_range=bounds, y_range=y_range, left=left, top=24.0)
    marked = slice(dots.marked, dots.marked + 1)
    drawing = axes.svg(
        axes.frame(x_title=x_title, y_title=y_title, x_format=_format_of(names, is_log)),
        tag("path", d=axes.dots(xs, dots.ys), class_="points"),
        tag("path", d=axes.dots(xs[marked], dots.ys[marked]), class_="dots second"),
        label=title,
    )
    return Figure(title=title, drawing=drawing)


def _format_of(names: Sequence[str], is_log: bool) -> Callable[[float], str]:
    if names:
        shown = [formats.shortened(name, _CLASS_CHARACTERS) for name in names]
        return lambda at: shown[round(at)] if at == round(at) and 0 <= at < len(shown) else ""
    return (lambda at: formats.number(10.0**at)) if is_log else formats.number


@dataclasses.dataclass(frozen=True, kw_only=True)
class Interval:
    """A number with its interval. `style` is first or second, or wrong if it is worse."""

    label: str
    low: float
    value: float
    high: float
    style: str = "first"


def interval_chart(title: str, intervals: Sequence[Interval], *, x_title: str) -> Figure | None:
    """Intervals below each other, which show at a glance which of them reach the dashed 0. None where none is
    known.
    """
    drawn = [each for each in intervals if np.isfinite([each.low, each.value, each.high]).all()]
    if not drawn:
        return None
    bounds = finite_range([0.0], [each.low for each in drawn], [each.high for each in drawn], margin=0.06)
    axes = row_axes(len(drawn), bounds)
    zero = f"M{axes.x(0.0):.1f} {axes.top:.0f}V{axes.height - axes.bottom:.0f}"
    drawing = axes.svg(
        axes.columns(x_title=x_title, at=ticks(axes.x_range)),
        tag("path", d=zero, class_="line guess"),
        *(_interval(axes, each, at) for at, each in enumerate(drawn)),
        label=title,
    )
    return Figure(title=title, drawing=drawing)


def row_axes(rows: int, bounds: tuple[float, float], *, row: float = 24.0, **sizes: float) -> Axes:
    """Axes for rows of a height below each other, whose middles are at y = 0.5, 1.5, … from the top."""
    sizes = {"width": 520.0, "left": 190.0, "right": 16.0, "top": 8.0, "bottom": 36.0} | sizes
    height = sizes["top"] + row * rows + sizes["bottom"]
    return Axes(x_range=bounds, y_range=(float(rows), 0.0), height=height, **sizes)


def row_label(axes: Axes, at: int, label: str) -> Markup:
    """Draws the name to the left of row `at`, counted from 0."""
    short = formats.shortened(label, _LONGEST_LABEL)
    return text(short, x=axes.left - 10, y=axes.y(at + 0.5) + 4, style="end")


def confusion_matrix(counts: np.ndarray, classes: Sequence[str]) -> Figure:
    """Rows are actual classes, columns predicted ones; a cell's colour is the cube root of its row's share.

    With the cube root, a class that is mistaken once in a hundred stays visible. Up to 20 classes, counts are
    written into the cells; with more classes, only cells that are not zero are drawn, each with a hint.

    Args:
      counts: int64 [classes, classes], (actual, predicted).
    """
    names = [formats.shortened(name, _CLASS_CHARACTERS) for name in classes[:_MAX_LABELLED]]
    is_labelled = len(names) == len(classes)
    longest = 7.0 * max(map(len, names))  # pixels: a character of 12 pixels is 7 wide
    left = 36.0 + longest if is_labelled else 24.0
    side, bounds = _MATRIX - left, (0.0, float(len(classes)))
    is_tilted = longest * len(classes) > side
    below = 22.0 + (20.0 + 0.7 * longest * is_tilted if is_labelled else 0.0)
    sizes = {
        "width": _MATRIX,
        "height": side + below,
        "left": left,
        "right": 0.0,
        "top": 0.0,
        "bottom": below,
    }
    axes = Axes(x_range=bounds, y_range=bounds[::-1], **sizes)
    title = "Confusion matrix"
    drawing = axes.svg(
        tag("rect", x=left, y=0, width=side, height=side, class_="empty"),
        *_squares(axes, counts, classes, gap=float(is_labelled)),
        *(_counts(axes, counts) if is_labelled else ()),
        *(_class_name(axes, at, name, is_tilted) for at, name in enumerate(names if is_labelled else ())),
        text("predicted", x=left + side / 2, y=axes.height - 4, style="middle title"),
        text("actual", x=-side / 2, y=11.0, style="middle title", transform="rotate(-90)"),
        label=title,
        class_="matrix",
    )
    note = "colour: share of the actual class" + ("" if is_labelled else "; point at a cell to read it")
    return Figure(title=title, drawing=drawing, note=note)


def _squares(axes: Axes, counts: np.ndarray, classes: Sequence[str], *, gap: float) -> Iterator[Markup]:
    size = f"{axes.x(1.0) - axes.x(0.0) - gap:.2f}"
    for row, column, share in _shares(counts):
        part = f"{counts[row, column]:,} ({formats.percent(share)} of {classes[row]})"
        yield tag(
            "rect",
            tag("title", f"{classes[row]} → {classes[column]}: {part}"),
            x=f"{axes.x(column):.2f}",
            y=f"{axes.y(row):.2f}",
            width=size,
            height=size,
            fill_opacity=f"{math.cbrt(share):.2f}",
            class_="right" if row == column else "wrong",
        )


def _counts(axes: Axes, counts: np.ndarray) -> Iterator[Markup]:
    cell = axes.x(1.0) - axes.x(0.0)
    size = max(6.0, min(15.0, cell * 0.5, cell * 1.4 / len(f"{counts.max():,}")))
    for row, column, share in _shares(counts):
        # Text is white on strong colours, and dark on pale ones.
        shade = "count strong" if math.cbrt(share) > 0.6 else "count"
        place = {"x": axes.x(column + 0.5), "y": axes.y(row + 0.5) + size * 0.35}
        number = f"{counts[row, column]:,}"
        yield tag("text", number, **place, style=f"font-size:{size:.1f}px", class_=shade)


def _shares(counts: np.ndarray) -> Iterator[tuple[int, int, float]]:
    """(row, column, share of the row) of each cell that is not 0."""
    shares = counts / np.maximum(1, counts.sum(axis=1, keepdims=True))
    for row, column in np.argwhere(counts > 0).tolist():
        yield row, column, float(shares[row, column])


def _class_name(axes: Axes, at: int, name: str, is_tilted: bool) -> Markup:
    x, y = axes.x(at + 0.5), axes.y(axes.y_range[0]) + 16.0
    turn = {"transform": f"rotate(-45 {x:.1f} {y:.1f})"} if is_tilted else {}
    return join(
        text(name, x=axes.left - 6, y=axes.y(at + 0.5) + 4, style="end"),
        text(name, x=x, y=y, style="end" if is_tilted else "middle", **turn),
    )


@dataclasses.dataclass(frozen=True, kw_only=True)
class Bins:
    """Equally wide bins between `low` and `high`, and the share of the values in each, float64 [bins]."""

    low: float
    high: float
    shares: np.ndarray


def equal_bins(quantiles: Sequence[float], bins: int = BINS) -> Bins:
    """Equally wide bins, computed from the boundaries of equally filled ones.

    They reach half the inner spread beyond the outermost inner boundaries, like the whiskers of a box plot,
    so that one outlier does not squeeze all bars into one.
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
    # A boundary repeats where many examples have that value: all of them fall into one bin.
    points = (starts == ends)[:, 0]
    home = np.clip(np.searchsorted(edges, bounds[:-1], side="right") - 1, 0, bins - 1)
    inside = (bounds[:-1] >= low) & (bounds[:-1] <= high)
    covered[points] = 0.0
    covered[points & inside, home[points & inside]] = 1.0
    return Bins(low=float(low), high=float(high), shares=covered.sum(axis=0) / (len(bounds) - 1))


def histogram(quantiles: Sequence[float], x_format: Callable = formats.number) -> Markup | None:
    """Bars as one path; None where there is nothing to draw."""
    if len(quantiles) < 2 or not np.all(np.isfinite(quantiles)) or quantiles[0] == quantiles[-1]:
        return None
    bins, (width, height) = equal_bins(quantiles), _HISTOGRAM
    step = width / BINS
    bars = "".join(
        f"M{at * step:g} {height}v{-max(share * (height - 1), 1):.1f}h{step - 1:g}V{height}"
        for at, share in enumerate(bins.shares / bins.shares.max())
        if share > 0
    )
    hint = tag("title", f"{x_format(bins.low)} … {x_format(bins.high)}")
    view = f"0 0 {width} {height}"
    return tag("svg", hint, tag("path", d=bars), viewBox=view, class_="histogram", role="img")


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


def stacked(parts: Sequence[tuple[str, float, str]]) -> Markup:
    """One bar of several (name, fraction, class of the style sheet), with a legend."""
    fills = (
        tag("i", style=f"width:{100 * part:.2f}%", class_=style, title=name) for name, part, style in parts
    )
    keys = (tag("span", _key(style), f"{name} {formats.percent(part)}") for name, part, style in parts)
    return join(tag("div", *fills, class_="stack"), tag("p", *keys, class_="legend"))


def _bar(label: str, fraction: float, *, style: str = "value", with_share: bool = True) -> Markup:
    share = tag("em", formats.percent(fraction)) if with_share else None
    fill = tag("i", style=f"width:{100 * min(1.0, fraction):.1f}%")
    return tag("div", fill, tag("span", label), share, class_=f"bar {style}")


def _key(style: str) -> Markup:
    return tag("i", class_=f"key {style}")


def _whole(tick: float) -> str:
    """Formats a tick at a whole number; other ticks get no label."""
    return formats.number(tick) if tick.is_integer() else ""


def _line(axes: Axes, series: Series) -> Markup:
    # A line of one point has no length, so it is shown as a dot.
    dots = axes.dots(series.xs, series.ys) if series.dots or len(series.xs) == 1 else None
    return join(
        tag("path", d=axes.path(series.xs, series.ys), class_=f"line {series.style}"),
        tag("path", d=dots, class_=f"dots {series.style}") if dots else None,
    )


def _thinned(series: Series) -> Series:
    chunks = min(MAX_POINTS, len(series.xs))
    xs, ys = (
        [float(np.mean(chunk)) for chunk in np.array_split(np.asarray(values, dtype=np.float64), chunks)]
        for values in (series.xs, series.ys)
    )
    return dataclasses.replace(series, xs=xs, ys=[*ys[:-1], series.ys[-1]])


def _interval(axes: Axes, each: Interval, at: int) -> Markup:
    """The label, the interval as a line, the value as a dot."""
    low, value, high = (axes.x(number) for number in (each.low, each.value, each.high))
    y, reach = axes.y(at + 0.5), f"{formats.number(each.low)} to {formats.number(each.high)}"
    return tag(
        "g",
        tag("title", f"{each.label}: {formats.number(each.value)} ({reach})"),
        row_label(axes, at, each.label),
        tag("path", d=f"M{low:.1f} {y:.1f}H{high:.1f}", class_=f"line {each.style}"),
        tag("path", d=f"M{value:.1f} {y:.1f}h0", class_=f"dots {each.style}"),
    )
