"""The training in the report: curves, throughput, how long it waited for data."""

from collections.abc import Callable, Mapping

import numpy as np

from pipeline.training.report.drawing import formats
from pipeline.training.report.drawing.axes import finite_range
from pipeline.training.report.drawing.charts import Series, line_chart
from pipeline.training.report.drawing.markup import Markup, definitions, join, tag
from pipeline.training.report.sections.feeding import feeding_fact, feeding_figure
from pipeline.training.report.sections.inputs import ReportInputs, curve
from pipeline.training.report.sections.metrics import metrics_of, written
from pipeline.training.report.sections.numbers import number_facts, step_time_chart
from pipeline.training.tasks.task import LOSS, Metric


def training_section(inputs: ReportInputs) -> Markup:
    """Facts and curves; before the first log point, a sentence."""
    if not inputs.history:
        waiting = tag("p", "Training has just begun: nothing was logged yet.", class_="note")
        return tag("section", tag("h2", "Training"), waiting, id="training")
    metrics = dict.fromkeys((LOSS, *metrics_of(inputs)))  # each once, those that were logged are drawn
    charts = [_metric_chart(inputs.history, metric) for metric in metrics]
    return tag(
        "section",
        tag("h2", "Training"),
        _facts(inputs),
        tag(
            "div",
            *charts,
            *_speed_charts(inputs.history),
            step_time_chart(inputs.history),
            feeding_figure(inputs),
            class_="figures",
        ),
        id="training",
    )


def _facts(inputs: ReportInputs) -> Markup:
    run, last = inputs.run, inputs.history[-1]
    total = f" of {formats.count(run['total_steps'])}" if "total_steps" in run else ""
    rates = [line["examples_per_s"] for line in inputs.history if line.get("examples_per_s")]
    precision = run.get("precision") or {}
    parameters = run.get("parameters")
    return definitions(
        {
            "steps": formats.count(last.get("step")) + total,
            "examples seen": formats.count(last.get("examples")) if "examples" in last else None,
            "time": formats.duration(run["seconds"]) if run.get("seconds") else None,
            "parameters": formats.count(parameters) if parameters else None,
            "examples a second": f"{formats.number(float(np.median(rates)))} (median)" if rates else None,
            "accelerator": feeding_fact(inputs.history),
            **number_facts(inputs.history),
            "strategy": _strategy(run),
            "precision": join(precision["policy"], tag("small", precision.get("reason", "")))
            if "policy" in precision
            else None,
            "XLA (jit_compile)": {True: "on", False: "off"}.get(run.get("jit_compile")),
        }
    )


def _strategy(run: Mapping) -> str | None:
    replicas = run.get("replicas")
    if not run.get("strategy"):
        return None
    return run["strategy"] + (f", {replicas:,} replica{'s' * (replicas != 1)}" if replicas else "")


def _metric_chart(history: tuple[Mapping, ...], metric: Metric) -> Markup | None:
    steps, values = curve(history, metric.key)
    held_out_steps, held_out = curve(history, metric.key, validation=True)
    series = [
        Series(name="train", xs=steps, ys=values),
        Series(name="validation", xs=held_out_steps, ys=held_out, style="second", dots=True),
    ]
    series = [one for one in series if one.xs]
    title = metric.name[0].upper() + metric.name[1:]
    return line_chart(title, series, y_format=written(metric)) if series else None


def _speed_charts(history: tuple[Mapping, ...]) -> list[Markup]:
    """Throughput and waiting, both from zero: what matters is how far they are from it."""
    return [
        chart
        for chart in (
            _from_zero("Examples a second", history, "examples_per_s", formats.number, "first"),
            _from_zero("Share of time waiting for input", history, "input_wait", formats.percent, "second"),
        )
        if chart is not None
    ]


def _from_zero(
    title: str, history: tuple[Mapping, ...], key: str, y_format: Callable, style: str
) -> Markup | None:
    steps, values = curve(history, key)
    if not steps:
        return None
    top = 1.1 * finite_range(values)[1]
    series = Series(name="last", xs=steps, ys=values, style=style)
    return line_chart(title, [series], y_format=y_format, y_range=(0.0, max(top, 0.1)))
