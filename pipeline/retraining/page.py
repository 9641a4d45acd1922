"""The page of `status --html`: the served version, and the history of cycles and versions."""

import contextlib
import dataclasses
from collections.abc import Mapping, Sequence

from pipeline.base.errors import InputError
from pipeline.report import html
from pipeline.report.charts import Series, line_chart
from pipeline.report.html import Markup
from pipeline.report.section import Section, Table, Tiles
from pipeline.retraining import left_out, records
from pipeline.retraining.records import Cycle
from pipeline.retraining.status import Overview, cycle_table, damage_lines, hold_line, time, version_table

_ENTRIES = 200  # entries of the audit log that are shown
_DECISIONS = {"PROMOTE": "promoted", "REJECT": "rejected", "UNDECIDED": "undecided", "FAILED": "failed"}


def status_page(known: Overview) -> Markup:
    """Renders the whole page, with links to the reports of cycles."""
    cycles, served = known.cycles, known.served
    tiles = [
        (served.version if served else "none", "version served"),
        (len(cycles), "cycles"),
        *((sum(cycle.decision == key for cycle in cycles), name) for key, name in _DECISIONS.items()),
    ]
    missed = left_out.lines(left_out.last_told(known.entries))
    hold = hold_line(known.hold) if known.hold else None
    head = [Tiles(items=tiles), hold, *damage_lines(known), *missed]
    tables = [
        Section(title="Cycles", parts=[_newest_first(cycle_table(known))]),
        _values(cycles),
        Section(title="Versions", parts=[_newest_first(version_table(known))]),
        _log(known.entries),
    ]
    return html.page(Section(title=f"{known.root.name}: retraining", parts=head), tables)


def _newest_first(table: Table) -> Table:
    header = [{"begun": "begun, UTC", "published": "published, UTC"}.get(name, name) for name in table.header]
    return dataclasses.replace(table, header=header, rows=table.rows[::-1])


def _values(cycles: Sequence[Cycle]) -> Section | None:
    """Draws the values of challenger and champion by cycle; None before the second cycle."""
    known = [(number, metric) for number, cycle in enumerate(cycles, 1) if (metric := _metric(cycle))]
    if len(known) < 2:
        return None
    drawn = []
    for role, style in (("challenger", "first"), ("champion", "second")):
        values = [(number, metric["values"].get(role, {}).get("value")) for number, metric in known]
        points = [(number, value) for number, value in values if value is not None]
        xs, ys = ([point[axis] for point in points] for axis in (0, 1))
        drawn.append(Series(name=role, xs=xs, ys=ys, style=style, dots=True))
    title = f"{known[-1][1]['name']} on each cycle's holdout"
    chart = line_chart(title, drawn, x_title="cycle, the oldest is 1")
    return Section(title="How good the models were", parts=[chart])


def _metric(cycle: Cycle) -> dict | None:
    """Returns the deciding metric of a cycle; None if the cycle did not get that far."""
    decided = None
    with contextlib.suppress(InputError):  # a damaged result draws nothing
        decided = records.read_result(cycle.folder / "decide.json")
    if not decided:
        return None
    gate = decided["gate"]
    return next((metric for metric in gate["metrics"] if metric["name"] == gate["metric"]), None)


def _log(entries: Sequence[Mapping]) -> Section:
    entries = [entry for entry in entries if entry["act"] != "started"]
    rows = [
        [time(each["at"]), each["act"], each.get("cycle", ""), each.get("reason") or _why(each.get("why"))]
        for each in reversed(entries[-_ENTRIES:])
    ]
    return Section(title="Audit log", parts=[Table(header=["at, UTC", "act", "cycle", "why"], rows=rows)])


def _why(reasons: object) -> str:
    return "; ".join(reasons) if isinstance(reasons, list) else str(reasons or "")
