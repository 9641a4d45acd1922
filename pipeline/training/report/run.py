"""The run in the report: facts and curves, whether the accelerator was fed, and where the wall time went."""

import shlex
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from pipeline.report import formats
from pipeline.report.charts import Series, line_chart, stacked
from pipeline.report.html import join, tag
from pipeline.report.section import Cell, Facts, Figure, Folded, Note, Section, Table
from pipeline.training.report.inputs import ReportInputs, as_float, curve
from pipeline.training.report.results import format_of, metrics_of
from pipeline.training.state.goodput import KINDS, Process, Spent, time_spent
from pipeline.training.tasks.task import LOSS, Metric

# Training is starved only if both limits are exceeded: a wait of a few seconds costs less than finding its
# cause.
_WAIT_LIMIT = 0.05  # fraction of the time
_WAIT_LIMIT_S = 30.0

_SHOWN = 0.0005  # fraction of the time; a smaller one would be 0.0 % in the line
_MOST_PROCESSES = 20  # rows of the table, at most
# Names that differ from those of KINDS.
_NAMES = {"lost": "lost work", "start": "start-up", "unwritten": "not written"}

_History = tuple[Mapping, ...]


def training_section(inputs: ReportInputs) -> Section:
    """Facts and curves; before the first log point, a sentence."""
    history = inputs.history
    if not history:
        waiting = Note(text="Training has just begun: nothing was logged yet.")
        return Section(title="Training", parts=[waiting], id="training")
    metrics = dict.fromkeys((LOSS, *metrics_of(inputs)))  # each metric once; those that were logged are drawn
    step_times = (("median", "step_p50_ms", "first"), ("p95", "step_p95_ms", "second"))
    return Section(
        title="Training",
        parts=[
            _facts(inputs),
            *(_metric_chart(history, metric) for metric in metrics),
            _chart("Examples a second", history, [("last", "examples_per_s", "first")]),
            _chart(
                "Share of time waiting for input",
                history,
                [("last", "input_wait", "second")],
                formats.percent,
            ),
            _chart("Milliseconds a step", history, step_times),
            feeding_figure(inputs),
        ],
        id="training",
    )


def _facts(inputs: ReportInputs) -> Facts:
    run, history, last = inputs.run, inputs.history, inputs.history[-1]
    total = f" of {formats.count(run['total_steps'])}" if "total_steps" in run else ""
    rate, precision = _median(history, "examples_per_s"), run.get("precision") or {}
    items = {
        "steps": formats.count(last.get("step")) + total,
        "examples seen": _if(last.get("examples"), formats.count),
        "time of training": _if(run.get("seconds"), formats.duration),
        "parameters": _if(run.get("parameters"), formats.count),
        "examples a second": _if(rate, lambda rate: f"{formats.number(rate)} (median)"),
        "accelerator": feeding_fact(history),
        **_measured(history),
        "strategy": _strategy(run),
        "precision": _if(
            precision.get("policy"), lambda name: Cell(text=name, note=precision.get("reason", ""))
        ),
        "XLA (jit_compile)": {True: "on", False: "off"}.get(run.get("jit_compile")),
    }
    return Facts(items=items)


def _measured(history: _History) -> dict[str, str | None]:
    """Medians of the log points, the longest step, the most memory."""
    median, longest = _median(history, "step_p50_ms"), _largest(history, "step_max_ms")
    flops, mfu = _median(history, "gflops_per_s"), _median(history, "mfu")
    peak = formats.percent(mfu) if mfu else "unknown: no peak is known"
    return {
        "step": median and f"{formats.number(median)} ms (median), {formats.number(longest)} ms at most",
        "FLOPs an example": _if(
            _flops_per_example(history), lambda flops: f"{formats.number(flops)} (3 × forward)"
        ),
        "FLOPs a second": flops and f"{formats.number(flops)} × 10⁹",
        "share of the peak (MFU)": flops and peak,
        "memory of the host": _if(_largest(history, "host_peak_mb"), _most),
        "memory of a device": _if(_largest(history, "device_peak_mb"), _most),
    }


def _most(megabytes: float) -> str:
    return f"{formats.size(1e6 * megabytes)} at most"


def _if(value: object, write: Callable) -> object | None:
    """Formats a value; None where there is none."""
    return write(value) if value else None


def _values(history: _History, key: str) -> list[float]:
    found = (as_float(line[key]) for line in history if line.get(key))
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


def _strategy(run: Mapping) -> str | None:
    replicas = run.get("replicas")
    if not run.get("strategy"):
        return None
    return run["strategy"] + (f", {replicas:,} replica{'s' * (replicas != 1)}" if replicas else "")


def _metric_chart(history: _History, metric: Metric) -> Figure | None:
    (steps, values), (held_out_steps, held_out) = (
        curve(history, metric.key, validation=validation) for validation in (False, True)
    )
    series = [
        Series(name="train", xs=steps, ys=values),
        Series(name="validation", xs=held_out_steps, ys=held_out, style="second", dots=True),
    ]
    return line_chart(metric.name[0].upper() + metric.name[1:], series, y_format=format_of(metric))


def _chart(
    title: str, history: _History, lines: Sequence[tuple[str, str, str]], y_format: Callable = formats.number
) -> Figure | None:
    """A chart of lines (name, key, style) that starts at zero, because their distance from zero matters."""
    curves = [(name, style, *curve(history, key)) for name, key, style in lines]
    series = [Series(name=name, xs=steps, ys=values, style=style) for name, style, steps, values in curves]
    return line_chart(title, series, y_format=y_format, from_zero=True)


def mean_input_wait(history: _History) -> float | None:
    """Share of the whole training time spent waiting: the logged shares, weighted by their seconds."""
    waits, seconds = _waits(history)
    return float(np.average(waits, weights=seconds)) if sum(seconds) else None


def waited_s(history: _History) -> float:
    waits, seconds = _waits(history)
    return float(np.dot(waits, seconds))


def is_starved(history: _History) -> bool:
    """Returns whether the accelerator waited for input too long."""
    waited = mean_input_wait(history)
    return waited is not None and waited > _WAIT_LIMIT and waited_s(history) > _WAIT_LIMIT_S


def working_step_ms(history: _History) -> float | None:
    """Milliseconds of the median step without its wait, which `pipeline.feed_rate` calls a step's time."""
    times = [
        as_float(line["step_ms"]) * (1 - as_float(line["input_wait"]))
        for line in history
        if line.get("step_ms") and line.get("input_wait") is not None
    ]
    times = [time for time in times if np.isfinite(time) and time > 0]
    return float(np.median(times)) if times else None


def certificate_command(inputs: ReportInputs) -> str | None:
    """Returns the command that shows which stage of the input pipeline is the limit."""
    run, step_ms = inputs.run, working_step_ms(inputs.history)
    if not (run.get("config_file") and run.get("dataset") and step_ms):
        return None
    datasets = [span["directory"] for span in run.get("spans") or ()] or [run["dataset"]]
    given = [f"--config={run['config_file']}", *(f"--dataset={directory}" for directory in datasets)]
    return f"python -m pipeline.feed_rate {shlex.join([*given, f'--step_ms={step_ms:.3g}'])}"


def feeding_fact(history: _History) -> str | None:
    """Formats such as `fed: waited 2.1 % of the time`, for the list of facts."""
    waited = mean_input_wait(history)
    if waited is None or not 0 <= waited <= 1:
        return None
    said = f"waited {formats.percent(waited)} of the time"
    if waited <= _WAIT_LIMIT:
        return f"fed: {said}"
    return (
        f"starved: {said}" if is_starved(history) else f"{said}, {formats.duration(waited_s(history))} in all"
    )


def feeding_figure(inputs: ReportInputs) -> Figure | None:
    """One bar of the whole time, and the log point at which the largest share was spent waiting."""
    waited = mean_input_wait(inputs.history)
    if waited is None or not 0 <= waited <= 1:
        return None
    bar = stacked([("computing", 1 - waited, "right"), ("waiting for input", waited, "wrong")])
    worst = max(inputs.history, key=lambda line: line.get("input_wait") or 0.0)
    most = formats.percent(as_float(worst.get("input_wait")))
    note = f"Most at step {formats.count(worst['step'])}: {most} of the time since the log point before."
    command = certificate_command(inputs)
    limit = tag("p", "Which stage is the limit: ", tag("code", command), class_="note") if command else None
    return Figure(title="Was it fed?", drawing=join(bar, tag("p", note, class_="note"), limit))


def _waits(history: _History) -> tuple[list[float], list[float]]:
    """(shares of waiting, seconds) of the log points."""
    waits, seconds, before = [], [], 0
    for line in history:
        if line.get("input_wait") is not None:
            waits.append(line["input_wait"])
            seconds.append((line["step"] - before) * line["step_ms"] / 1_000)
        before = line["step"]
    return waits, seconds


def time_line(lines: Sequence[Mapping]) -> str:
    """`time       2 min 03 s in 2 processes: productive 71.0 %, compile 12.1 %, …`."""
    spent = time_spent(lines)
    if spent is None:
        return "time       not known: there is no ledger.jsonl"
    shares = [f"{_name(kind)} {formats.percent(share)}" for kind, share in spent.shares() if share >= _SHOWN]
    return f"time       {_whole(spent)}: {', '.join(shares)}{_longest(spent)}"


def time_section(inputs: ReportInputs) -> Section | None:
    """A bar of the whole time, a description of each part, and the processes; None if there is no goodput
    log.
    """
    spent = time_spent(inputs.goodput_log)
    if spent is None or not spent.wall_s:
        return None
    rows = [
        [
            _name(kind),
            formats.duration(spent.seconds[kind]),
            formats.percent(share),
            f"{KINDS[kind]}{_longest(spent) if kind == 'checkpoint' else ''}",
        ]
        for kind, share in spent.shares()
    ]
    return Section(
        title="Where the time went",
        parts=[
            tag("p", tag("b", _whole(spent)), f" of wall time. {_away(spent)}"),
            stacked([(_name(kind), share, f"time-{kind}") for kind, share in spent.shares()]),
            Table(header=["", "time", "share", "what it is"], rows=rows, numbers={1, 2}),
            _processes(spent.processes) if len(spent.processes) > 1 else None,
        ],
        id="time",
    )


def _longest(spent: Spent) -> str:
    """The longest stall of training by a checkpoint."""
    longest = spent.longest_save_s
    return f"; one save held training up for {longest:.3f} s at most" if longest else ""


def _name(kind: str) -> str:
    return _NAMES.get(kind, kind)


def _whole(spent: Spent) -> str:
    number = len(spent.processes)
    return f"{formats.duration(spent.wall_s)} in {number:,} process{'es' * (number != 1)}"


def _away(spent: Spent) -> str:
    if len(spent.processes) == 1:
        return ""
    return f"Between the processes another {formats.duration(spent.away_s)} passed, which is not counted."


def _processes(processes: Sequence[Process]) -> Folded:
    rows = [
        [
            *map(formats.count, (one.number, one.from_step, one.step)),
            formats.duration(one.wall_s),
            "killed" if one.was_killed else "",
        ]
        for one in processes[-_MOST_PROCESSES:]
    ]
    more = len(processes) - len(rows)
    header = ["process", "from step", "to step", "time", "end"]
    table = Table(header=header, rows=rows, numbers=range(4))
    rest = Note(text=f"… and {more:,} before them.") if more else None
    return Folded(title=f"{len(processes):,} processes", parts=[table, rest])
