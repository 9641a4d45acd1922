"""The training's curves in a cycle's report; the run's own report has all of them."""

import pathlib

from pipeline.training.report.drawing.charts import Series, line_chart
from pipeline.training.report.drawing.markup import Markup, tag
from pipeline.training.state import history
from pipeline.training.state.workdir import Workdir


def section(run: pathlib.Path) -> Markup | None:
    """The loss of training and validation; None where the run's files are gone."""
    path = Workdir(run).history
    points = history.read(path) if path.exists() else []
    if not points:
        return None
    training = [point for point in points if "loss" in point]
    validation = [point for point in points if "loss" in point.get("validation", {})]
    drawn = [
        Series(name="training", xs=[p["step"] for p in training], ys=[p["loss"] for p in training]),
        Series(
            name="validation",
            xs=[p["step"] for p in validation],
            ys=[p["validation"]["loss"] for p in validation],
            style="second",
            dots=True,
        ),
    ]
    chart = line_chart("Loss", [each for each in drawn if each.xs])
    return tag(
        "section",
        tag("h2", "Training"),
        tag("div", chart, class_="figures"),
        tag("p", tag("a", "The run's own report", href="run/report.html")),
    )
