"""The report's small figures, one a table row: histogram, shares of values, missing fraction."""

import dataclasses
from collections.abc import Sequence

import numpy as np

from pipeline.training.report.drawing import formats
from pipeline.training.report.drawing.markup import Markup, join, tag

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
