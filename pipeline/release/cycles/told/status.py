"""What is served, what is planned, and what was done: text for a terminal, and the same as JSON."""

import datetime
from collections.abc import Iterator, Mapping, Sequence

from pipeline.release.cycles.planning.champion import PUBLISHED, TAKEN_BACK, Served
from pipeline.release.cycles.planning.plan import Plan
from pipeline.release.cycles.records import audit, ended, hold
from pipeline.release.cycles.records.ended import PROMOTE, Begun
from pipeline.release.cycles.records.root import Root
from pipeline.release.cycles.spans.survey import Span
from pipeline.release.cycles.told import lines
from pipeline.release.publish import publish as publish_lib
from pipeline.release.publish import versions

_SHOWN = 12  # cycles and spans; --json has all


def status(
    root: Root, served: Served | None, *, now: datetime.datetime, store: Mapping | None = None
) -> Iterator[str]:
    """What is served, what holds, and the newest cycles; `store` is what store.said says."""
    if served is None:
        yield f"model {root.name}: nothing is published yet"
    else:
        yield (
            f"model {root.name}: version {served.version} is served, of cycle {served.cycle}, "
            f"published {time(served.at)} ({_ago(served.at, now)})"
        )
        yield f"  {served.directory}"
    if store is not None:
        yield from lines.of_store(store)
    if found := hold.why(root):
        yield lines.held(found)
        yield f"  {lines.after_hold(found)}"
    yield ""
    yield from _cycles(root)
    yield from _versions(root)


def plan(plan: Plan) -> Iterator[str]:
    """What reconcile would do now, and why."""
    if plan.held:
        yield f"nothing would happen: {plan.held}"
    elif plan.drifts:
        yield "retraining would be held, and a person asked, because new data moved far:"
        yield from (f"  {drift}" for drift in plan.drifts[:_SHOWN])
        yield f"  {lines.AFTER_DRIFT}"
    elif plan.failed:
        yield f"nothing would happen: cycle {plan.id} failed with these inputs"
        yield f"  {plan.failed.failure['stage']}: {plan.failed.failure['error']}"
    elif plan.goes_on:
        yield f"cycle {plan.id} would go on: it was begun {time(plan.goes_on.plan['at'])}"
    elif plan.due:
        yield f"cycle {plan.id} would begin, which is due:"
        yield from (f"  {reason}" for reason in plan.due)
    else:
        yield "nothing would happen:"
        yield from (f"  {reason}" for reason in plan.waits)
    yield ""
    champion = f"version {plan.champion.version}" if plan.champion else "nothing yet"
    yield f"served: {champion}" + (f"; anchor: version {plan.anchor.version}" if plan.anchor else "")
    yield from (f"note: {note}" for note in plan.notes)
    yield ""
    yield from _spans(plan)


def as_json(root: Root, served: Served | None, *, store: Mapping | None = None) -> dict:
    """Everything, for programs; `store` is what store.said says."""
    return {
        "model": root.name,
        "served": None
        if served is None
        else {"version": served.version, "cycle": served.cycle, "at": served.at},
        "store": store,
        "hold": hold.why(root),
        "cycles": [
            {
                "cycle": cycle.id,
                "decision": cycle.decision,
                "plan": cycle.plan,
                "end": cycle.end,
                "failure": cycle.failure,
            }
            for cycle in ended.cycles(root)
        ],
        "versions": [dict(versions.published(root.serving, each)) for each in _there(root)],
        "quarantined": dict(publish_lib.quarantined(root.serving)) if root.serving.is_dir() else {},
        "audit": audit.entries(root.audit),
    }


def plan_as_json(plan: Plan) -> dict:
    """What `plan` says, for programs."""
    return {
        "cycle": plan.id,
        "due": plan.due,
        "waits": plan.waits,
        "held": plan.held,
        "drifts": [str(drift) for drift in plan.drifts],
        "goes_on": bool(plan.goes_on),
        "failed": plan.failed.failure if plan.failed else None,
        "notes": plan.notes,
        "training": [span.name for span in plan.window.training],
        "holdout": [span.name for span in plan.window.holdout],
        "left_out": {span.name: span.unusable for span in plan.window.left_out},
        "champion": plan.champion.version if plan.champion else None,
        "anchor": plan.anchor.version if plan.anchor else None,
    }


def why(cycle: Begun) -> str:
    """Why a cycle ended as it did, in a line."""
    if cycle.failure:
        return f"{cycle.failure['stage']}: {cycle.failure['error']}"
    if cycle.end:
        return cycle.end["reasons"][0] if cycle.end["reasons"] else ""
    done = [path.stem for path in cycle.folder.glob("*.json")]
    return f"{len(done)} stages are done; `reconcile` goes on"


def time(text: str) -> str:
    """To the minute, as people write it."""
    return f"{datetime.datetime.fromisoformat(text):%Y-%m-%d %H:%M}"


def published(root: Root) -> dict[str, int]:
    """The version that each cycle was published as, also by a person; none that was taken back."""
    entries = audit.entries(root.audit)
    back = {entry["version"] for entry in entries if entry["act"] == TAKEN_BACK}
    came = [entry for entry in entries if entry["act"] == PUBLISHED and entry["version"] not in back]
    return {entry["cycle"]: entry["version"] for entry in came}


def decision(cycle: Begun, found: Mapping[str, int]) -> str:
    """What was decided, and whether a person decided otherwise; `found` is what `published` says."""
    by_person = cycle.id in found and cycle.decision != PROMOTE
    backfill = " (backfill)" if cycle.plan["backfill"] else ""
    return f"{cycle.decision}{backfill}{', promoted by a person' if by_person else ''}"


def _cycles(root: Root) -> Iterator[str]:
    cycles, found = ended.cycles(root), published(root)
    if not cycles:
        yield "no cycle was begun yet"
        return
    hidden = len(cycles) - _SHOWN
    yield f"cycles, the newest last{f' ({hidden} older ones: --json)' if hidden > 0 else ''}:"
    rows = [("cycle", "begun", "decision", "version", "why")]
    for cycle in cycles[-_SHOWN:]:
        version = str(found.get(cycle.id, ""))
        rows.append((cycle.id, time(cycle.plan["at"]), decision(cycle, found), version, why(cycle)))
    yield from _aligned(rows)
    yield ""


def _versions(root: Root) -> Iterator[str]:
    rows = [("version", "published", "cycle")]
    for version in _there(root):
        told = versions.published(root.serving, version)
        rows.append((str(version), time(told["at"]), told["cycle"]))
    if len(rows) > 1:
        yield "versions, the newest last, which is served:"
        yield from _aligned(rows)
    gone = publish_lib.quarantined(root.serving) if root.serving.is_dir() else {}
    for cycle, reason in gone.items():
        yield f"  quarantined: cycle {cycle}, {reason}"


def _spans(plan: Plan) -> Iterator[str]:
    window = plan.window
    shown = [*window.spans, *window.left_out]
    if not shown:
        yield "no spans"
        return
    rows = [("span", "rows", "role", "state")]
    for span in sorted(shown, key=lambda each: each.name)[-_SHOWN:]:
        rows.append(
            (span.name, "" if span.rows is None else f"{span.rows:,}", _role(span, plan), _state(span, plan))
        )
    hidden = len(shown) - _SHOWN
    yield f"spans{f' ({hidden} older ones: --json)' if hidden > 0 else ''}:"
    yield from _aligned(rows)


def _role(span: Span, plan: Plan) -> str:
    roles = {"train": plan.window.training, "judge": plan.window.holdout}
    return " and ".join(role for role, spans in roles.items() if span in spans) or "left out"


def _state(span: Span, plan: Plan) -> str:
    if span.unusable:
        return span.unusable
    if span.receipt is None:
        return "new: would be converted first"
    return "new" if span in plan.new else "seen"


def _there(root: Root) -> list[int]:
    return versions.versions(root.serving) if root.serving.is_dir() else []


def _aligned(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """A table; the last column is as wide as it is."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]) - 1)]
    for row in rows:
        cells = [cell.ljust(width) for cell, width in zip(row, widths, strict=False)]
        yield ("  " + "  ".join([*cells, row[-1]])).rstrip()


def _ago(text: str, now: datetime.datetime) -> str:
    hours = (now - datetime.datetime.fromisoformat(text)).total_seconds() / 3600
    if abs(hours) < 1:
        return f"{60 * hours:.0f} minutes ago"
    return f"{hours / 24:.1f} days ago" if hours >= 48 else f"{hours:.1f} hours ago"
