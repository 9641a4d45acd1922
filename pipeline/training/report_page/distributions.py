"""The report's small figures, one a table row: histogram, shares of values, missing fraction."""

from collections.abc import Sequence

import numpy as np

from pipeline.training.report_page import formats
from pipeline.training.report_page.markup import Markup, join, tag

BINS = 24
WIDTH, HEIGHT = 144, 30


def bin_shares(quantiles: Sequence[float], bins: int = BINS) -> tuple[float, float, np.ndarray]:
    """Shares of the values in equally wide bins, from boundaries of equally filled ones.

    Reaches half the inner spread beyond the outermost inner boundaries, like the whiskers of a box plot, so
    that one outlier does not press all bars into one. Returns (low, high, float64[bins]).
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
    return float(low), float(high), covered.sum(axis=0) / (len(bounds) - 1)


def histogram(quantiles: Sequence[float]) -> Markup | None:
    """Bars as one path; None where there is nothing to draw."""
    if len(quantiles) < 2 or not np.all(np.isfinite(quantiles)) or quantiles[0] == quantiles[-1]:
        return None
    low, high, shares = bin_shares(quantiles)
    heights = shares / shares.max() * (HEIGHT - 1)
    step = WIDTH / BINS
    bars = "".join(
        f"M{i * step:g} {HEIGHT}v{-max(height, 1):.1f}h{step - 1:g}V{HEIGHT}"
        for i, height in enumerate(heights)
        if height > 0
    )
    hint = tag("title", f"{formats.number(low)} … {formats.number(high)}")
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


def stacked(parts: Sequence[tuple[str, float, str]]) -> Markup:
    """One bar of (name, fraction of the whole, style class) parts."""
    fills = (
        tag("i", style=f"width:{100 * fraction:.2f}%", class_=style, title=name)
        for name, fraction, style in parts
    )
    keys = (
        tag("span", tag("i", class_=f"key {style}"), f"{name} {formats.percent(fraction)}")
        for name, fraction, style in parts
    )
    return join(tag("div", *fills, class_="stack"), tag("p", *keys, class_="legend"))
