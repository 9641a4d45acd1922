"""The report's large figures: curves over steps, the ROC curve, predicted against actual values."""

import dataclasses
from collections.abc import Callable, Sequence

import numpy as np

from pipeline.training.report.drawing import formats
from pipeline.training.report.drawing.axes import Axes, finite_range
from pipeline.training.report.drawing.markup import Markup, join, tag

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
