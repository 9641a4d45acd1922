"""Was the accelerator fed? The share of the time that it waited, over the run and at its worst."""

import shlex
from collections.abc import Mapping

import numpy as np

from pipeline.training.report.drawing import formats
from pipeline.training.report.drawing.charts import figure
from pipeline.training.report.drawing.distributions import Share, stacked
from pipeline.training.report.drawing.markup import Markup, join, tag
from pipeline.training.report.sections.inputs import ReportInputs, as_float

# Training is starved beyond both: a wait of seconds costs less than looking into it.
_WAIT_LIMIT = 0.05  # of the time
_WAIT_LIMIT_S = 30.0

_History = tuple[Mapping, ...]


def mean_input_wait(history: _History) -> float | None:
    """Share of the whole training time spent waiting: the logged shares, weighted by their seconds."""
    waits, seconds = _waits(history, step_ms=1.0)
    return float(np.average(waits, weights=seconds)) if sum(seconds) else None


def waited_s(history: _History) -> float:
    """Seconds spent waiting for input, of the log points that know their time."""
    waits, seconds = _waits(history, step_ms=0.0)
    return float(np.dot(waits, seconds))


def is_starved(history: _History) -> bool:
    """Whether the accelerator waited for input too long."""
    waited = mean_input_wait(history)
    return waited is not None and waited > _WAIT_LIMIT and waited_s(history) > _WAIT_LIMIT_S


def working_step_ms(history: _History) -> float | None:
    """Milliseconds of the median step, less its wait: what `pipeline.feed_rate` calls a step's time."""
    times = [
        as_float(line["step_ms"]) * (1 - as_float(line["input_wait"]))
        for line in history
        if line.get("step_ms") and line.get("input_wait") is not None
    ]
    times = [time for time in times if np.isfinite(time) and time > 0]
    return float(np.median(times)) if times else None


def certificate_command(inputs: ReportInputs) -> str | None:
    """What to run to see which stage of the input pipeline is the limit."""
    run, step_ms = inputs.run, working_step_ms(inputs.history)
    if not (run.get("config_file") and run.get("dataset") and step_ms):
        return None
    datasets = [span["directory"] for span in run.get("spans") or ()] or [run["dataset"]]
    flags = (
        f"--config={run['config_file']}",
        *(f"--dataset={directory}" for directory in datasets),
        f"--step_ms={step_ms:.3g}",
    )
    return f"python -m pipeline.feed_rate {shlex.join(flags)}"


def feeding_fact(history: _History) -> str | None:
    """For the list of facts: "fed: waited 2.1 % of the time"."""
    waited = mean_input_wait(history)
    if waited is None or not 0 <= waited <= 1:
        return None
    told = f"waited {formats.percent(waited)} of the time"
    if waited <= _WAIT_LIMIT:
        return f"fed: {told}"
    return (
        f"starved: {told}" if is_starved(history) else f"{told}, {formats.duration(waited_s(history))} in all"
    )


def feeding_figure(inputs: ReportInputs) -> Markup | None:
    """One bar of the whole time, and the log point at which most of it was spent waiting."""
    waited = mean_input_wait(inputs.history)
    if waited is None or not 0 <= waited <= 1:
        return None
    bar = stacked(
        [
            Share(name="computing", fraction=1 - waited, style="right"),
            Share(name="waiting for input", fraction=waited, style="wrong"),
        ]
    )
    worst = max(inputs.history, key=lambda line: line.get("input_wait") or 0.0)
    most = formats.percent(as_float(worst.get("input_wait")))
    note = f"Most at step {formats.count(worst['step'])}: {most} of the time since the log point before."
    command = certificate_command(inputs)
    asked = join("Which stage is the limit: ", tag("code", command)) if command else None
    body = join(bar, tag("p", note, class_="note"), tag("p", asked, class_="note") if asked else None)
    return figure("Was it fed?", body)


def _waits(history: _History, *, step_ms: float) -> tuple[list[float], list[float]]:
    """(shares of waiting, seconds) of the log points; `step_ms` is that of one without."""
    waits, seconds, before = [], [], 0
    for line in history:
        if line.get("input_wait") is not None:
            waits.append(line["input_wait"])
            seconds.append((line["step"] - before) * (line.get("step_ms") or step_ms) / 1_000)
        before = line["step"]
    return waits, seconds
