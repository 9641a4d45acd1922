"""The confusion matrix as a picture: right answers in one colour, mistakes in another."""

import dataclasses
import math
from collections.abc import Sequence

import numpy as np

from pipeline.training.report.drawing import formats
from pipeline.training.report.drawing.charts import figure
from pipeline.training.report.drawing.markup import Markup, join, tag

WIDTH = 420.0
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
    view = f"0 0 {WIDTH:.0f} {grid.height:.0f}"
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
        return (WIDTH - self.left) / len(self.classes)

    @property
    def side(self) -> float:
        return WIDTH - self.left

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
