"""report.html of a cycle: what it was trained on, how the models compare, what was decided and why."""

import pathlib
from collections.abc import Iterable, Mapping

import numpy as np

from pipeline.base import files
from pipeline.data.dataset import statistics
from pipeline.data.dataset.manifest import STATISTICS_FILE_NAME, TRAIN
from pipeline.data.dataset.statistics import FeatureStatistics
from pipeline.data.schema.feature import Feature
from pipeline.data.schema.feature_types import Datetime, Numeric
from pipeline.data.statistics import drift
from pipeline.gate.slices import REGRESSED
from pipeline.report import formats
from pipeline.report.charts import Interval, Series, interval_chart, line_chart
from pipeline.report.html import Markup, definitions, document, join, table, tag
from pipeline.retraining import records, status
from pipeline.retraining.job import Job
from pipeline.retraining.status import time, why
from pipeline.training.replay.value import EMPTY, shown_value
from pipeline.training.state import workdir
from pipeline.training.state.workdir import Workdir

FILE_NAME = "report.html"
_STAGES = ("data", "train", "export", "parity", "evaluate", "infra", "decide", "publish", "verify", "gc")


def write(job: Job) -> pathlib.Path:
    """Writes the page from the receipts that are there now: a reader never sees half of one."""
    path = job.folder / FILE_NAME
    files.write_bytes(path, render(job).encode(errors="backslashreplace"))
    return path


def render(job: Job) -> Markup:
    """The whole page."""
    begun = records.read_cycle(job.folder)
    said = {stage: found for stage in _STAGES if (found := records.read_result(job.receipt_of(stage)))}
    name = f"{job.root.name}: cycle {job.id}"
    decided = said.get("decide", {})
    return document(
        name,
        tag("header", tag("h1", name), _headline(begun, said), tag("p", why(begun))),
        _reasons(decided),
        comparison_section(decided.get("gate")),
        slices_section(decided.get("gate")),
        _window(begun.plan, said),
        drift_section(job),
        training_section(job.run),
        _checks(said),
        _stages(said),
    )


def _headline(begun: records.Begun, said: Mapping) -> Markup:
    decision = (
        begun.decision if begun.end or begun.failure else said.get("decide", {}).get("decision", "runs")
    )
    version = (begun.end or {}).get("version")
    return tag(
        "div",
        tag(
            "div",
            tag("strong", decision, class_=f"decision {decision}"),
            tag("span", "decision"),
            class_="tile",
        ),
        _tile(version, "version") if version else None,
        _tile(time(begun.plan["at"]), "begun, UTC"),
        _tile(begun.plan["champion"].get("version", "none"), "champion, version"),
        class_="tiles",
    )


def _tile(value: object, told: str) -> Markup:
    return tag("div", tag("strong", value), tag("span", told), class_="tile")


def _reasons(decided: Mapping) -> Markup | None:
    if not decided.get("reasons"):
        return None
    listed = tag("ul", *(tag("li", reason) for reason in decided["reasons"]))
    return tag("section", tag("h2", "Why"), listed, class_="findings")


def _window(plan: Mapping, said: Mapping) -> Markup:
    """Spans with their rows and roles, and what was left out."""
    rows = [
        [span["name"], formats.count(sum(span["rows"].values())), " and ".join(span["roles"]), span["raw"]]
        for span in plan["spans"]
    ]
    overlap = said.get("data", {}).get("overlap")
    return tag(
        "section",
        tag("h2", "Data"),
        tag("p", status.window_line(plan)),
        definitions(
            {
                "due because": "; ".join(plan["due"]) or None,
                "rows of the holdout that training has too": formats.count(overlap["rows"])
                if overlap
                else None,
            }
        ),
        tag("ul", *(tag("li", note) for note in plan["notes"])) if plan["notes"] else None,
        table(["span", "rows", "role", "raw data"], rows, numbers=frozenset({1})),
    )


def _checks(said: Mapping) -> Markup | None:
    """Parity and the infra check."""
    found = {name: said[name] for name in ("parity", "infra") if name in said}
    if not found:
        return None
    parts = []
    for name, each in found.items():
        verdict = "passed" if each["passed"] else "failed"
        parts += [
            tag("h3", f"{ {'parity': 'Parity', 'infra': 'Infra check'}[name] }: {verdict}"),
            tag("ul", *(tag("li", reason) for reason in each["reasons"])) if each["reasons"] else None,
        ]
    return tag("section", tag("h2", "Does it serve as it was trained?"), *parts, _cost(said.get("infra")))


def _cost(infra: Mapping | None) -> Markup | None:
    """Latency, memory and size beside the champion's."""
    if not infra or not infra.get("measured"):
        return None
    models = {"challenger": infra["measured"], "champion": infra.get("champion")}
    rows = [
        [
            role,
            f"{each['latency'][0]['median_ms']:.2f} ms",
            f"{each['latency'][0]['p99_ms']:.2f} ms",
            f"{each['memory_mib']:,.0f} MiB",
            f"{each['disk_mib']:.1f} MiB",
        ]
        for role, each in models.items()
        if each
    ]
    header = ["", "one row, median", "one row, p99", "memory", "size"]
    return table(header, rows, numbers=frozenset({1, 2, 3, 4}))


def _stages(said: Mapping) -> Markup:
    rows = [
        [stage, time(each["at"]), formats.duration(each["seconds"]), status.stage_line(stage, each)]
        for stage, each in said.items()
    ]
    listed = table(["stage", "ended, UTC", "took", ""], rows, numbers=frozenset({2}))
    return tag("section", tag("h2", "Stages"), join(listed))


# --- Champion against challenger in a report: metrics with intervals, and each slice.


_SHOWN = 40  # slices that are drawn, the worst first


def comparison_section(gate: Mapping | None) -> Markup | None:
    """Every metric of every model, and the paired differences; None before a decision."""
    if not gate:
        return None
    roles = [*dict.fromkeys(role for metric in gate["metrics"] for role in metric["values"])]
    others = [role for role in roles if role != "challenger"]
    rows = [
        [
            metric["name"],
            *(_with_interval(metric["values"].get(role)) for role in roles),
            *(_with_interval(metric["differences"].get(role)) for role in others),
            tag("small", _methods(metric["differences"].values())),
        ]
        for metric in gate["metrics"]
    ]
    better = [f"better than {role} by" for role in others]
    return tag(
        "section",
        tag("h2", "Challenger and champion"),
        tag("p", f"On {_rows(gate)} of the holdout; {gate['reuse']['meaning']}."),
        table(
            ["metric", *roles, *better, "method"], rows, numbers=frozenset(range(1, 1 + len(roles + better)))
        ),
        tag("div", *_charts(gate), class_="figures"),
    )


def _rows(gate: Mapping) -> str:
    rows = f"{formats.count(gate['rows'])} rows"
    if gate["clusters"] is None:
        return rows
    return f"{rows}, in {formats.count(gate['clusters'])} clusters of {gate['rules']['clustered_by']},"


def slices_section(gate: Mapping | None) -> Markup | None:
    """Each value of the slice features; None where none was asked for."""
    if not gate or not gate["slices"]["results"]:
        return None
    slices = gate["slices"]["results"]
    more = sum(gate["slices"]["left_out"].values())
    judged = sorted(
        (each for each in slices if each["difference"]), key=lambda each: each["difference"]["value"]
    )
    drawn = [
        Interval(label=_name(each), style=_difference_style(each), **_ends(each["difference"]))
        for each in judged[:_SHOWN]
        if None not in _ends(each["difference"]).values()
    ]
    rows = [
        [
            _name(each),
            formats.count(each["rows"]),
            formats.number(each["difference"]["value"]) if each["difference"] else "–",
            formats.number(each["p_holm"]),
            each["verdict"],
            each["reason"],
        ]
        for each in [*judged, *(each for each in slices if not each["difference"])]
    ]
    chart = interval_chart("Improvement on each slice", drawn, x_title="better than the champion by")
    return tag(
        "section",
        tag("h2", "Slices"),
        tag("div", chart, class_="figures"),
        table(["slice", "rows", "better by", "p (Holm)", "", "why"], rows, numbers=frozenset({1, 2, 3})),
        tag("p", f"Not listed, and not evaluated: {formats.count(more)} slices with fewer rows.")
        if more
        else None,
    )


def _charts(gate: Mapping) -> list[Markup | None]:
    """The paired differences of each metric: each has a unit of its own, so each is a figure."""
    charts = []
    for metric in gate["metrics"]:
        drawn = [
            Interval(
                label=f"than the {role}",
                **_ends(each),
                style="wrong" if each["high"] < 0 else "first" if each["low"] > 0 else "second",
            )
            for role, each in metric["differences"].items()
            if None not in _ends(each).values()
        ]
        charts.append(
            interval_chart(f"Better in {metric['name']}", drawn, x_title=f"better by, {metric['name']}")
        )
    return charts


def _with_interval(each: Mapping | None) -> Markup | str:
    if not each or each["value"] is None:
        return "–"
    return tag("span", formats.number(each["value"]), tag("small", _interval(each)))


def _methods(differences: Iterable[Mapping]) -> str:
    """How the intervals of the differences were found, each way once."""
    return "; ".join(dict.fromkeys(each["method"] for each in differences if each["value"] is not None))


def _interval(each: Mapping) -> str:
    return f" {formats.number(each['low'])} to {formats.number(each['high'])}"


def _name(each: Mapping) -> str:
    return f"{each['feature']} = {each['value']}"


def _difference_style(each: Mapping) -> str:
    return "wrong" if each["verdict"] == REGRESSED else "first"


def _ends(each: Mapping) -> dict[str, float]:
    return {name: each[name] for name in ("low", "value", "high")}


# --- Drift in a report: how far each span of the holdout lies from what the champion was trained on.


_DRAWN = 20


def drift_section(job: Job) -> Markup | None:
    """Each feature of the newest span against the training statistics of this cycle's model."""
    spans = job.plan["spans"]
    before = job.export / STATISTICS_FILE_NAME
    if not before.exists():
        return None
    newest = job.directories("holdout")[-1] / STATISTICS_FILE_NAME
    now = statistics.read(newest)
    rows = spans[-1]["rows"]
    largest = TRAIN if rows.get(TRAIN) else max(rows, key=rows.get)
    trained = statistics.read(before)[TRAIN].features
    found = [
        (name, feature, trained[name], drift.distance(feature, trained[name]))
        for name, feature in now[largest].features.items()
        if name in trained
    ]
    declared = {feature.name: feature for feature in job.training.dataset.schema.features}
    found.sort(key=lambda each: -(each[3].value if each[3] else 0.0))
    drawn = [
        Interval(label=name, low=0.0, value=far.value, high=far.value, style=_style(far))
        for name, _, _, far in found[:_DRAWN]
        if far
    ]
    return tag(
        "section",
        tag("h2", "Drift"),
        tag("p", f"Span {spans[-1]['name']} against the rows that this model was trained on."),
        tag(
            "div",
            interval_chart("Distance", drawn, x_title="0: the same; 1: nothing in common"),
            class_="figures",
        ),
        table(
            ["feature", "distance", "chance alone", "measure", "mean or commonest, now", "in training"],
            [
                [name, *_cells(far), centre(now, declared[name]), centre(then, declared[name])]
                for name, now, then, far in found
            ],
            numbers=frozenset({1, 2}),
        ),
    )


def _style(far: drift.Distance) -> str:
    return "second" if far.value > far.chance else "first"


def _cells(far: drift.Distance | None) -> list[str]:
    if far is None:
        return ["–", "–", "–"]
    return [formats.fraction(far.value), formats.fraction(far.chance), far.measure]


def centre(feature: FeatureStatistics, declared: Feature) -> str:
    """The mean, as the raw data has it, or the commonest value and its part; – where neither is known."""
    if feature.numeric:
        return _mean(feature.numeric.mean, declared)
    if feature.values and feature.values.values:
        value, count = feature.values.values[0]
        shown = formats.shortened(value, 40) or EMPTY
        return f"{shown} ({formats.percent(count / max(1, feature.present))})"
    return "–"


def _mean(mean: float, declared: Feature) -> str:
    if isinstance(declared, Datetime):
        return shown_value(declared, np.int64(mean))
    return formats.number(mean + declared.offset if isinstance(declared, Numeric) else mean)


# --- The training's curves in a cycle's report; the run's own report has all of them.


def training_section(run: pathlib.Path) -> Markup | None:
    """The loss of training and validation; None where the run's files are gone."""
    path = Workdir(run).history
    points = workdir.read_history(path) if path.exists() else []
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
