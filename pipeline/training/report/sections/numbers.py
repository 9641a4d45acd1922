"""Step times, operations and memory of a run: facts, and the chart of the step times."""

from collections.abc import Mapping

import numpy as np

from pipeline.training.report.drawing import formats
from pipeline.training.report.drawing.axes import finite_range
from pipeline.training.report.drawing.charts import Series, line_chart
from pipeline.training.report.drawing.markup import Markup
from pipeline.training.report.sections.inputs import as_float, curve

_History = tuple[Mapping, ...]


def number_facts(history: _History) -> dict[str, str | None]:
    """Terms with what was measured: medians of the log points, the longest step, the most memory."""
    median, longest = _median(history, "step_p50_ms"), _largest(history, "step_max_ms")
    flops, mfu = _median(history, "gflops_per_s"), _median(history, "mfu")
    per_example = _flops_per_example(history)
    host, device = _largest(history, "host_peak_mb"), _largest(history, "device_peak_mb")
    return {
        "step": f"{_ms(median)} (median), {_ms(longest)} at most" if median else None,
        "FLOPs an example": f"{formats.number(per_example)} (3 × forward)" if per_example else None,
        "FLOPs a second": f"{formats.number(flops)} × 10⁹" if flops else None,
        "share of the peak (MFU)": (formats.percent(mfu) if mfu else "unknown: no peak is known")
        if flops
        else None,
        "memory of the host": f"{formats.size(1e6 * host)} at most" if host else None,
        "memory of a device": f"{formats.size(1e6 * device)} at most" if device else None,
    }


def step_time_chart(history: _History) -> Markup | None:
    """The median and the 95th percentile of the steps since the log point before."""
    series = [
        Series(name=name, xs=steps, ys=values, style=style)
        for name, key, style in (("median", "step_p50_ms", "first"), ("p95", "step_p95_ms", "second"))
        for steps, values in [curve(history, key)]
        if steps
    ]
    if not series:
        return None
    top = 1.1 * finite_range(*(one.ys for one in series))[1]
    return line_chart("Milliseconds a step", series, y_range=(0.0, top))


def _ms(value: float | None) -> str:
    return f"{formats.number(value)} ms"


def _values(history: _History, key: str) -> list[float]:
    found = (as_float(line[key]) for line in history if key in line)
    return [value for value in found if np.isfinite(value)]


def _median(history: _History, key: str) -> float | None:
    values = _values(history, key)
    return float(np.median(values)) if values else None


def _largest(history: _History, key: str) -> float | None:
    return max(_values(history, key), default=None)


def _flops_per_example(history: _History) -> float | None:
    for line in history:
        if line.get("gflops_per_s") and line.get("examples_per_s"):
            return round(1e9 * line["gflops_per_s"] / line["examples_per_s"])
    return None
