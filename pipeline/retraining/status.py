"""What is served, what is planned, and what was done: text for a terminal, and the same as JSON."""

import datetime
from collections.abc import Iterator, Mapping, Sequence

from pipeline.publishing import publish as publish_lib
from pipeline.publishing import versions
from pipeline.retraining import records
from pipeline.retraining.champion import PUBLISHED, TAKEN_BACK, Served
from pipeline.retraining.datasets import Span
from pipeline.retraining.plan import Plan
from pipeline.retraining.records import PROMOTE, Begun, Root

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
        yield from store_lines(store)
    if found := records.why_on_hold(root):
        yield held_line(found)
        yield f"  {after_hold_line(found)}"
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
        yield f"  {AFTER_DRIFT}"
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
        "hold": records.why_on_hold(root),
        "cycles": [
            {
                "cycle": cycle.id,
                "decision": cycle.decision,
                "plan": cycle.plan,
                "end": cycle.end,
                "failure": cycle.failure,
            }
            for cycle in records.cycle_history(root)
        ],
        "versions": [dict(versions.published(root.serving, each)) for each in _there(root)],
        "quarantined": dict(publish_lib.quarantined(root.serving)) if root.serving.is_dir() else {},
        "audit": records.audit_entries(root.audit),
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
    entries = records.audit_entries(root.audit)
    back = {entry["version"] for entry in entries if entry["act"] == TAKEN_BACK}
    came = [entry for entry in entries if entry["act"] == PUBLISHED and entry["version"] not in back]
    return {entry["cycle"]: entry["version"] for entry in came}


def decision(cycle: Begun, found: Mapping[str, int]) -> str:
    """What was decided, and whether a person decided otherwise; `found` is what `published` says."""
    by_person = cycle.id in found and cycle.decision != PROMOTE
    backfill = " (backfill)" if cycle.plan["backfill"] else ""
    return f"{cycle.decision}{backfill}{', promoted by a person' if by_person else ''}"


def _cycles(root: Root) -> Iterator[str]:
    cycles, found = records.cycle_history(root), published(root)
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


# --- A line for each thing that happens.


AFTER_DRIFT = (
    "look at it; then `release --reason=…` lets it pass, config.spans.exclude leaves a span out, and "
    "config.drift.ignore a feature that always moves, such as a date"
)


def span_line(span: Span) -> str:
    """Of one that was converted just now."""
    if span.unusable:
        return f"span {span.name}: left out, {span.unusable}"
    return f"span {span.name}: {span.rows:,} rows"


def cycle_line(plan: Plan, receipt: Mapping) -> str:
    """Above its stages."""
    how = "goes on" if plan.goes_on else "begins"
    due = f": {'; '.join(receipt['due'])}" if receipt["due"] else ""
    return "\n  ".join([f"cycle {plan.id} {how}{due}", *plan.rewritten, window_line(receipt)])


def window_line(receipt: Mapping) -> str:
    """What a cycle is trained on, judged on and compared with."""
    trained = _range([span["name"] for span in receipt["spans"] if "training" in span["roles"]])
    judged = _range([span["name"] for span in receipt["spans"] if "holdout" in span["roles"]])
    champion = receipt["champion"].get("version")
    against = f"against version {champion}" if champion else "the first model"
    return f"trained on {trained}, judged on {judged}, {against}"


def stage_line(name: str, said: Mapping) -> str:
    """What a stage came to, in a few words."""
    return _STAGES[name](said)


def held_line(found: Mapping) -> str:
    """Why nothing happens."""
    since = f" since {found['at'][:16]}" if found["at"] else ""
    return f"held by {found['by'] or 'a person'}{since}: {found['reason']}"


def after_hold_line(found: Mapping) -> str:
    """What a person does next."""
    return AFTER_DRIFT if found["by"] == "drift" else "`release --reason=…` ends the hold"


def store_lines(said: Mapping) -> Iterator[str]:
    """What the store serves, and a line for each difference; `said` is what store.said says."""
    if "error" in said:
        yield f"store {said['place']}: it cannot be looked at: {said['error']}"
        return
    serves = f"version {said['served']} is served" if said["served"] is not None else "nothing is served"
    yield f"store {said['place']}: {serves}"
    if said["foreign"]:
        yield f"  {_numbers(said['foreign'])} there was never published here: nothing is written to it"
    if said["missing"]:
        yield f"  it lacks {_numbers(said['missing'])}; `reconcile` publishes it"
    if said["removed"]:
        yield f"  it has {_numbers(said['removed'])} that should not be there; `reconcile` removes it"
    if said["unfinished"]:
        yield "  a process writes there, or was killed while it did"


def _numbers(versions: Sequence[int]) -> str:
    return f"version{'s' if len(versions) > 1 else ''} {', '.join(map(str, sorted(versions)))}"


def _range(names: Sequence[str]) -> str:
    if len(names) == 1:
        return f"span {names[0]}"
    return f"{len(names)} spans, {names[0]} to {names[-1]}"


def _data(said: Mapping) -> str:
    training, holdout = (said[part]["rows"] for part in ("training", "holdout"))
    splits = ", ".join(f"{split} {rows:,}" for split, rows in training.items())
    return (
        f"{sum(training.values()):,} rows to train with ({splits}), {sum(holdout.values()):,} to judge with"
    )


def _train(said: Mapping) -> str:
    numbers = [f"{key} {value:.4f}" for key, value in said["metrics"].items() if isinstance(value, float)]
    return ", ".join(numbers[:3])


def _export(said: Mapping) -> str:
    return f"step {said['step']:,}, {said['parameters']:,} parameters"


def _checked(said: Mapping) -> str:
    return "passed" if said["passed"] else f"FAILED: {said['reasons'][0]}"


def _evaluate(said: Mapping) -> str:
    return f"{said['rows']:,} rows asked of {', '.join(said['models'])}"


def _decide(said: Mapping) -> str:
    return f"{said['decision']}: {said['reasons'][0] if said['reasons'] else ''}"


def _publish(said: Mapping) -> str:
    return f"version {said['version']}" if said["version"] else f"nothing, {said['why']}"


def _verify(said: Mapping) -> str:
    if said["version"] is None:
        return "nothing to verify"
    return "it serves" if said["passed"] else f"TAKEN BACK: {said['reasons'][0]}"


def _gc(said: Mapping) -> str:
    told = [
        f"{len(said[key])} {key} {verb}"
        for key, verb in (("versions", "removed"), ("cycles", "emptied"))
        if said[key]
    ]
    return ", ".join(told) or "nothing to remove"


_STAGES = {
    "data": _data,
    "train": _train,
    "export": _export,
    "parity": _checked,
    "evaluate": _evaluate,
    "infra": _checked,
    "decide": _decide,
    "publish": _publish,
    "verify": _verify,
    "gc": _gc,
}
