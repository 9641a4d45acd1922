"""Writes report.html of a cycle: its data, the comparison of the models, the decision and the reasons."""

import pathlib
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from pipeline.base import files
from pipeline.data.dataset import statistics
from pipeline.data.dataset.manifest import STATISTICS_FILE_NAME, TRAIN
from pipeline.data.dataset.statistics import FeatureStatistics
from pipeline.data.schema.feature import Feature
from pipeline.data.schema.feature_types import Datetime, Numeric
from pipeline.data.statistics import drift
from pipeline.gate.slices import REGRESSED
from pipeline.report import formats, html
from pipeline.report.charts import Interval, Series, interval_chart, line_chart
from pipeline.report.html import Markup, tag
from pipeline.report.section import Cell, Facts, Figure, Finding, Section, Table, Tiles
from pipeline.retraining import records
from pipeline.retraining.job import Job
from pipeline.retraining.status import STAGES, stage_line, time, why, window_line
from pipeline.training.replay.format import EMPTY, format_value
from pipeline.training.state import workdir
from pipeline.training.state.workdir import Workdir

FILE_NAME = "report.html"
_SLICES_DRAWN = 40  # slices that are drawn; the worst come first
_FEATURES_DRAWN = 20  # features that are drawn; the farthest come first


def write(job: Job) -> pathlib.Path:
    """Writes the page from the stage results so far; a reader never sees half a page."""
    path = job.folder / FILE_NAME
    files.write_bytes(path, render(job).encode(errors="backslashreplace"))
    return path


def render(job: Job) -> Markup:
    """Renders the whole page."""
    cycle = records.read_cycle(job.folder)
    said = {stage: found for stage in STAGES if (found := records.read_result(job.result_path(stage)))}
    decided = said.get("decide", {})
    reasons = [Finding(text=reason) for reason in decided.get("reasons") or ()]
    gate = decided.get("gate")
    return html.page(
        Section(title=f"{job.root.name}: cycle {job.id}", parts=[_headline(cycle, decided), why(cycle)]),
        [
            Section(title="Why", parts=reasons, style="findings") if reasons else None,
            *((_models(gate), _slices(gate)) if gate else ()),
            _window(cycle.plan, said),
            _drift(job),
            _training(job.run),
            _checks(said),
            _stages(said),
        ],
    )


def _headline(cycle: records.Cycle, decided: Mapping) -> Tiles:
    has_ended = cycle.end or cycle.failure
    decision = cycle.decision if has_ended else decided.get("decision", "runs")
    version = (cycle.end or {}).get("version")
    return Tiles(
        items=[
            (Cell(text=decision, style=f"decision {decision}"), "decision"),
            *([(version, "version")] if version else []),
            (time(cycle.plan["at"]), "begun, UTC"),
            (cycle.plan["champion"].get("version", "none"), "champion, version"),
        ]
    )


def _models(gate: Mapping) -> Section:
    """Shows every metric of every model, and the paired differences."""
    roles = [*dict.fromkeys(role for metric in gate["metrics"] for role in metric["values"])]
    others = [role for role in roles if role != "challenger"]
    rows = [
        [
            metric["name"],
            *(_with_interval(metric["values"].get(role)) for role in roles),
            *(_with_interval(metric["differences"].get(role)) for role in others),
            tag("small", _methods(metric["differences"])),
        ]
        for metric in gate["metrics"]
    ]
    header = ["metric", *roles, *(f"better than {role} by" for role in others), "method"]
    clusters = ""
    if gate["clusters"] is not None:
        clusters = f", in {formats.count(gate['clusters'])} clusters of {gate['rules']['clustered_by']},"
    if gate.get("distinct") is not None:
        clusters = f" ({formats.count(gate['distinct'])} are no copies of another one)"
    on = f"On {formats.count(gate['rows'])} rows{clusters} of the holdout; {gate['reuse']['meaning']}."
    table = Table(header=header, rows=rows, numbers=range(1, len(header) - 1))
    return Section(title="Challenger and champion", parts=[on, table, *_differences(gate)])


def _differences(gate: Mapping) -> Iterator[Figure | None]:
    """Draws the paired differences, one figure for each metric: each has its own unit."""
    for metric in gate["metrics"]:
        name, drawn = metric["name"], []
        for role, each in metric["differences"].items():
            if None not in _ends(each).values():
                style = "wrong" if each["high"] < 0 else "first" if each["low"] > 0 else "second"
                drawn.append(Interval(label=f"than the {role}", **_ends(each), style=style))
        yield interval_chart(f"Better in {name}", drawn, x_title=f"better by, {name}")


def _slices(gate: Mapping) -> Section | None:
    """Shows each slice; None where there are none."""
    slices, more = gate["slices"]["results"], sum(gate["slices"]["left_out"].values())
    if not slices:
        return None
    others = [each for each in slices if not each["difference"]]
    evaluated = [each for each in slices if each["difference"]]
    evaluated.sort(key=lambda each: each["difference"]["value"])
    drawn = [
        Interval(
            label=f"{each['feature']} = {each['value']}",
            style="wrong" if each["verdict"] == REGRESSED else "first",
            **_ends(each["difference"]),
        )
        for each in evaluated[:_SLICES_DRAWN]
        if None not in _ends(each["difference"]).values()
    ]
    rows = [
        [
            f"{each['feature']} = {each['value']}",
            formats.count(each["rows"]),
            formats.number(each["difference"]["value"] if each["difference"] else None),
            formats.number(each["p_holm"]),
            each["verdict"],
            each["reason"],
        ]
        for each in [*evaluated, *others]
    ]
    header = ["slice", "rows", "better by", "p (Holm)", "", "why"]
    rest = f"Not listed, and not evaluated: {formats.count(more)} slices with fewer rows."
    return Section(
        title="Slices",
        parts=[
            interval_chart("Improvement on each slice", drawn, x_title="better than the champion by"),
            Table(header=header, rows=rows, numbers=range(1, 4)),
            rest if more else None,
        ],
    )


def _with_interval(each: Mapping | None) -> Cell | str:
    if not each or each["value"] is None:
        return formats.NOT_KNOWN
    interval = f" {formats.number(each['low'])} to {formats.number(each['high'])}"
    return Cell(text=formats.number(each["value"]), note=interval)


def _methods(differences: Mapping[str, Mapping]) -> str:
    """Lists the methods of the differences' intervals, each once."""
    known = (each["method"] for each in differences.values() if each["value"] is not None)
    return "; ".join(dict.fromkeys(known))


def _ends(each: Mapping) -> dict[str, float]:
    return {name: each[name] for name in ("low", "value", "high")}


def _window(plan: Mapping, said: Mapping) -> Section:
    """Shows the spans with their rows and roles, and those left out."""
    rows = [
        [span["name"], formats.count(sum(span["rows"].values())), " and ".join(span["roles"]), span["raw"]]
        for span in plan["spans"]
    ]
    overlap = said.get("data", {}).get("overlap")
    facts = [
        ("due because", "; ".join(plan["due"])),
        ("rows of the holdout that training has too", formats.count(overlap["rows"]) if overlap else None),
    ]
    spans = Table(header=["span", "rows", "role", "raw data"], rows=rows, numbers={1})
    notes = (Finding(text=note) for note in plan["notes"])
    return Section(title="Data", parts=[window_line(plan), Facts(items=facts), *notes, spans])


def _drift(job: Job) -> Section | None:
    """Shows the distance of each feature of the newest span from the model's training statistics."""
    before, newest = job.export / STATISTICS_FILE_NAME, job.plan["spans"][-1]
    if not before.exists():
        return None
    rows = newest["rows"]
    split = TRAIN if rows.get(TRAIN) else max(rows, key=rows.get)
    now = statistics.read(job.directories("holdout")[-1] / STATISTICS_FILE_NAME)[split].features
    trained = statistics.read(before)[TRAIN].features
    declared = {feature.name: feature for feature in job.training.dataset.schema.features}
    found = [(drift.distance(now[name], trained[name]), name) for name in now if name in trained]
    found.sort(key=lambda each: -(each[0].value if each[0] else 0.0))
    drawn = [
        Interval(
            label=name,
            low=0.0,
            value=far.value,
            high=far.value,
            style="second" if far.value > far.chance else "first",
        )
        for far, name in found[:_FEATURES_DRAWN]
        if far
    ]
    table = Table(
        header=["feature", "distance", "chance alone", "measure", "mean or commonest, now", "in training"],
        rows=[
            [name, *_distance(far), *(centre(each[name], declared[name]) for each in (now, trained))]
            for far, name in found
        ],
        numbers={1, 2},
    )
    against = f"Span {newest['name']} against the rows that this model was trained on."
    chart = interval_chart("Distance", drawn, x_title="0: the same; 1: nothing in common")
    return Section(title="Drift", parts=[against, chart, table])


def _distance(far: drift.Distance | None) -> list[str]:
    if far is None:
        return [formats.NOT_KNOWN] * 3
    return [formats.fraction(far.value), formats.fraction(far.chance), far.measure]


def centre(feature: FeatureStatistics, declared: Feature) -> str:
    """Formats the mean, as in the raw data, or the most frequent value and its share; – if unknown."""
    if feature.numeric:
        mean = feature.numeric.mean
        if isinstance(declared, Datetime):
            return format_value(declared, np.int64(mean))
        return formats.number(mean + declared.offset if isinstance(declared, Numeric) else mean)
    if feature.values and feature.values.values:
        value, count = feature.values.values[0]
        shown = formats.shortened(value, 40) or EMPTY
        return f"{shown} ({formats.percent(count / max(1, feature.present))})"
    return formats.NOT_KNOWN


def _training(run: pathlib.Path) -> Section | None:
    """Shows the loss of training and validation; None where the run's files are gone."""
    path = Workdir(run).history
    points = workdir.read_history(path) if path.exists() else []
    if not points:
        return None
    held_out = [{"step": point["step"]} | point["validation"] for point in points if "validation" in point]
    loss = [_loss("training", points), _loss("validation", held_out, style="second", dots=True)]
    report = Cell(text="The run's own report", link="run/report.html")
    return Section(title="Training", parts=[line_chart("Loss", loss), report])


def _loss(name: str, points: Sequence[Mapping], **look: object) -> Series:
    known = [point for point in points if point.get("loss") is not None]
    xs, ys = ([point[key] for point in known] for key in ("step", "loss"))
    return Series(name=name, xs=xs, ys=ys, **look)


def _checks(said: Mapping) -> Section | None:
    """Shows parity and the infra check."""
    parts: list[object] = []
    for name, title in (("parity", "Parity"), ("infra", "Infra check")):
        if name in said:
            verdict = "passed" if said[name]["passed"] else "failed"
            parts += [
                tag("h3", f"{title}: {verdict}"),
                *(Finding(text=each) for each in said[name]["reasons"]),
            ]
    cost = _cost(said.get("infra"))
    return Section(title="Does it serve as it was trained?", parts=[*parts, cost]) if parts else None


def _cost(infra: Mapping | None) -> Table | None:
    """Compares latency, memory and size with the champion's."""
    if not infra or not infra.get("measured"):
        return None
    models = {"challenger": infra["measured"], "champion": infra.get("champion")}
    rows = [
        [
            role,
            *(f"{each['latency'][0][key]:.2f} ms" for key in ("median_ms", "p99_ms")),
            f"{each['memory_mib']:,.0f} MiB",
            f"{each['disk_mib']:.1f} MiB",
        ]
        for role, each in models.items()
        if each
    ]
    header = ["", "one row, median", "one row, p99", "memory", "size"]
    return Table(header=header, rows=rows, numbers=range(1, 5))


def _stages(said: Mapping) -> Section:
    rows = [
        [stage, time(each["at"]), formats.duration(each["seconds"]), stage_line(stage, each)]
        for stage, each in said.items()
    ]
    table = Table(header=["stage", "ended, UTC", "took", ""], rows=rows, numbers={2})
    return Section(title="Stages", parts=[table])
