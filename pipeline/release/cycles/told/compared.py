"""Champion against challenger in a report: metrics with intervals, and each slice."""

from collections.abc import Iterable, Mapping

from pipeline.release.gate.slices import REGRESSED
from pipeline.training.report.drawing import formats
from pipeline.training.report.drawing.intervals import Interval, interval_chart
from pipeline.training.report.drawing.markup import Markup, table, tag

_SHOWN = 40  # slices that are drawn, the worst first


def section(gate: Mapping | None) -> Markup | None:
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
        Interval(label=_name(each), style=_style(each), **_ends(each["difference"]))
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


def _style(each: Mapping) -> str:
    return "wrong" if each["verdict"] == REGRESSED else "first"


def _ends(each: Mapping) -> dict[str, float]:
    return {name: each[name] for name in ("low", "value", "high")}
