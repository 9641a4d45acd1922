"""`status --html`: what is served, and the history of cycles and versions, on one page."""

from collections.abc import Sequence

from pipeline.publishing import versions
from pipeline.report.charts import Series, line_chart
from pipeline.report.html import Markup, document, table, tag
from pipeline.retraining import records, status
from pipeline.retraining.champion import Served
from pipeline.retraining.records import Begun, Root
from pipeline.retraining.status import decision, published, time, why

_ENTRIES = 200  # of the audit log


def status_page(root: Root, served: Served | None) -> Markup:
    """The whole page; links lead to the cycles' reports, relative to the root."""
    cycles = records.cycle_history(root)
    held = records.why_on_hold(root)
    name = f"{root.name}: retraining"
    return document(
        name,
        tag(
            "header",
            tag("h1", name),
            _tiles(served, cycles),
            tag("p", status.held_line(held)) if held else None,
        ),
        _history(root, cycles),
        _values(cycles),
        _versions(root, served),
        _log(root),
    )


def _tiles(served: Served | None, cycles: Sequence[Begun]) -> Markup:
    counts = {"PROMOTE": "promoted", "REJECT": "rejected", "UNDECIDED": "undecided", "FAILED": "failed"}
    return tag(
        "div",
        _tile(served.version if served else "none", "version served"),
        _tile(len(cycles), "cycles"),
        *(_tile(sum(cycle.decision == key for cycle in cycles), told) for key, told in counts.items()),
        class_="tiles",
    )


def _tile(value: object, told: str) -> Markup:
    return tag("div", tag("strong", value), tag("span", told), class_="tile")


def _history(root: Root, cycles: Sequence[Begun]) -> Markup:
    found = published(root)
    rows = [
        [
            tag("a", cycle.id, href=f"{root.path.as_uri()}/cycles/{cycle.id}/report.html"),
            time(cycle.plan["at"]),
            status.window_line(cycle.plan),
            tag("span", decision(cycle, found), class_=f"decision {cycle.decision}"),
            found.get(cycle.id, ""),
            why(cycle),
        ]
        for cycle in reversed(cycles)
    ]
    header = ["cycle", "begun, UTC", "data", "decision", "version", "why"]
    return tag("section", tag("h2", "Cycles"), table(header, rows, numbers=frozenset({4})))


def _values(cycles: Sequence[Begun]) -> Markup | None:
    """What challenger and champion came to, cycle by cycle; None before the second."""
    found = [(number, _metric(cycle)) for number, cycle in enumerate(cycles, 1)]
    known = [(number, metric) for number, metric in found if metric]
    if len(known) < 2:
        return None
    drawn = []
    for role, style in (("challenger", "first"), ("champion", "second")):
        points = [
            (number, metric["values"][role]["value"])
            for number, metric in known
            if metric["values"].get(role, {}).get("value") is not None
        ]
        if points:
            xs, ys = zip(*points, strict=True)
            drawn.append(Series(name=role, xs=xs, ys=ys, style=style, dots=True))
    title = f"{known[-1][1]['name']} on each cycle's holdout"
    return tag(
        "section",
        tag("h2", "How good the models were"),
        tag("div", line_chart(title, drawn, x_title="cycle, the oldest is 1"), class_="figures"),
    )


def _metric(cycle: Begun) -> dict | None:
    """The deciding metric of a cycle that came so far."""
    decided = records.receipts.read(cycle.folder / "decide.json")
    if not decided:
        return None
    gate = decided["gate"]
    return next((metric for metric in gate["metrics"] if metric["name"] == gate["metric"]), None)


def _versions(root: Root, served: Served | None) -> Markup:
    there = versions.versions(root.serving) if root.serving.is_dir() else []
    told = [versions.published(root.serving, version) for version in reversed(there)]
    rows = [
        [
            each["version"],
            time(each["at"]),
            each["cycle"],
            "served" if served and each["version"] == served.version else "",
        ]
        for each in told
    ]
    return tag(
        "section",
        tag("h2", "Versions"),
        table(["version", "published, UTC", "cycle", ""], rows, numbers=frozenset({0})),
    )


def _log(root: Root) -> Markup:
    entries = [entry for entry in records.audit_entries(root.audit) if entry["act"] != "started"]
    rows = [
        [
            time(entry["at"]),
            entry["act"],
            entry.get("cycle", ""),
            entry.get("reason") or _told(entry.get("why")),
        ]
        for entry in reversed(entries[-_ENTRIES:])
    ]
    return tag("section", tag("h2", "Audit log"), table(["at, UTC", "act", "cycle", "why"], rows))


def _told(why: object) -> str:
    return "; ".join(why) if isinstance(why, list) else str(why or "")
