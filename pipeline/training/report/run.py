"""The training in the report: curves, throughput, how long it waited for data."""

import shlex
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from pipeline.report import formats
from pipeline.report.axes import finite_range
from pipeline.report.charts import Series, Share, figure, line_chart, stacked
from pipeline.report.html import Markup, definitions, folded, join, table, tag
from pipeline.training.report.inputs import ReportInputs, as_float, curve
from pipeline.training.report.results import metrics_of, written
from pipeline.training.state.goodput import KINDS, Process, Spent, time_spent
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


# --- Was the accelerator fed? The share of the time that it waited, over the run and at its worst.


# Training is starved beyond both: a wait of seconds costs less than looking into it.
_WAIT_LIMIT = 0.05  # of the time
_WAIT_LIMIT_S = 30.0

_History = tuple[Mapping, ...]


def mean_input_wait(history: _History) -> float | None:
    """Share of the whole training time spent waiting: the logged shares, weighted by their seconds."""
    waits, seconds = _waits(history)
    return float(np.average(waits, weights=seconds)) if sum(seconds) else None


def waited_s(history: _History) -> float:
    """Seconds spent waiting for input."""
    waits, seconds = _waits(history)
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


def _waits(history: _History) -> tuple[list[float], list[float]]:
    """(shares of waiting, seconds) of the log points."""
    waits, seconds, before = [], [], 0
    for line in history:
        if line.get("input_wait") is not None:
            waits.append(line["input_wait"])
            seconds.append((line["step"] - before) * line["step_ms"] / 1_000)
        before = line["step"]
    return waits, seconds


# --- Where the wall time of a run went, over all its processes: one line, and a section of the report.


_SHOWN = 0.0005  # of the time: less is 0.0 % in the line
_MOST_PROCESSES = 20  # rows of the table
_NAMES = {"lost": "lost work", "start": "start-up", "unwritten": "not written"}  # others as in KINDS


def time_line(lines: Sequence[Mapping]) -> str:
    """`time       2 min 03 s in 2 processes: productive 71.0 %, compile 12.1 %, …`."""
    spent = time_spent(lines)
    if spent is None:
        return "time       not known: there is no ledger.jsonl"
    shares = [f"{_name(kind)} {formats.percent(share)}" for kind, share in spent.shares() if share >= _SHOWN]
    return f"time       {_whole(spent)}: {', '.join(shares)}{_longest(spent)}"


def time_account_section(inputs: ReportInputs) -> Markup | None:
    """A bar of all the time, what is in each part, and the processes; None where there is no ledger."""
    spent = time_spent(inputs.ledger)
    if spent is None or not spent.wall_s:
        return None
    bar = stacked(
        [Share(name=_name(kind), fraction=share, style=f"time-{kind}") for kind, share in spent.shares()]
    )
    rows = [
        [_name(kind), formats.duration(spent.seconds[kind]), formats.percent(share), _what(kind, spent)]
        for kind, share in spent.shares()
    ]
    account = table(["", "time", "share", "what it is"], rows, numbers=frozenset({1, 2}))
    whole = tag("p", tag("b", _whole(spent)), f" of wall time. {_away(spent)}")
    return tag(
        "section",
        tag("h2", "Where the time went"),
        whole,
        bar,
        account,
        _processes(spent.processes) if len(spent.processes) > 1 else None,
        id="time",
    )


def _what(kind: str, spent: Spent) -> str:
    return f"{KINDS[kind]}{_longest(spent)}" if kind == "checkpoint" else KINDS[kind]


def _longest(spent: Spent) -> str:
    """The longest stall of training by a checkpoint."""
    return (
        f"; one save held training up for {spent.longest_save_s:.3f} s at most"
        if spent.longest_save_s
        else ""
    )


def _name(kind: str) -> str:
    return _NAMES.get(kind, kind)


def _whole(spent: Spent) -> str:
    number = len(spent.processes)
    return f"{formats.duration(spent.wall_s)} in {number:,} process{'es' * (number != 1)}"


def _away(spent: Spent) -> str:
    if len(spent.processes) == 1:
        return ""
    return f"Between the processes another {formats.duration(spent.away_s)} passed, which is not counted."


def _processes(processes: Sequence[Process]) -> Markup:
    rows = [
        [formats.count(one.number), _step(one.from_step), _step(one.step), formats.duration(one.wall_s), end]
        for one in processes[-_MOST_PROCESSES:]
        for end in ["killed" if one.was_killed else ""]
    ]
    more = len(processes) - len(rows)
    return folded(
        f"{len(processes):,} processes",
        table(["process", "from step", "to step", "time", "end"], rows, numbers=frozenset({0, 1, 2, 3})),
        join(tag("p", f"… and {more:,} before them.", class_="note")) if more else None,
    )


def _step(step: int | None) -> str:
    return formats.NOT_KNOWN if step is None else formats.count(step)


# --- Step times, operations and memory of a run: facts, and the chart of the step times.


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
