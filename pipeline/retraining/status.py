"""Formats what is served, planned and done: as sections for a terminal, as JSON, and in lines."""

import dataclasses
import datetime
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TypeVar

from pipeline.base.errors import InputError
from pipeline.publishing import publish as publish_lib
from pipeline.publishing import versions
from pipeline.report.section import Cell, Section, Table
from pipeline.retraining import champion, left_out, records, store
from pipeline.retraining.champion import PUBLISHED, TAKEN_BACK, Served
from pipeline.retraining.datasets import Span
from pipeline.retraining.plan import Plan
from pipeline.retraining.records import PROMOTE, Ahead, Cycle, Root
from pipeline.retraining.settings import Settings

AFTER_DRIFT = (
    "look at it; then `release --reason=…` ends the hold and lets it pass. Before that, config.spans.exclude "
    "leaves a span out, and config.drift.ignore keeps a feature that always moves, such as a date, from "
    "holding later spans"
)
AFTER_CLOCK = "`clock --reason=…` goes on, if the clock is right"
_LISTED = 12  # cycles and spans that are listed; --json has all
_CYCLE = ("cycle", "begun", "data", "decision", "version", "why")
_VERSION = ("version", "published", "cycle", "")
_SHORT = (0, 1, 3, 4, 5)  # the columns of cycles that fit a terminal

_Read = TypeVar("_Read")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Overview:
    """Everything known about a root; damaged parts are named and left out.

    Attributes:
      served: the champion; None where nothing is published, or where it is damaged.
      store: see store.describe.
      publications: publication.json by version.
      barred: cycles that may not be published again, with the reasons.
      ahead: what was recorded at a time ahead of the clock; None where nothing was.
      damage: a sentence for each file that is damaged or cannot be read.
    """

    root: Root
    served: Served | None
    store: Mapping | None
    hold: Mapping | None
    cycles: Sequence[Cycle]
    publications: Mapping[int, Mapping]
    barred: Mapping[str, str]
    entries: Sequence[Mapping]
    ahead: Ahead | None
    damage: Sequence[str]

    @property
    def published(self) -> dict[str, int]:
        """Maps each cycle to its published version, also if a person published it; without those taken
        back.
        """
        back = {entry["version"] for entry in self.entries if entry["act"] == TAKEN_BACK}
        came = [entry for entry in self.entries if entry["act"] == PUBLISHED and entry["version"] not in back]
        return {entry["cycle"]: entry["version"] for entry in came}


def survey(root: Root, settings: Settings, *, now: datetime.datetime) -> Overview:
    """Reads everything that is known; never raises InputError for a damaged file."""
    damage: list[str] = []

    def read(what: Callable[[], _Read], otherwise: _Read) -> _Read:
        try:
            return what()
        except (InputError, OSError) as error:
            damage.append(str(error))
            return otherwise

    entries = read(lambda: records.audit_entries(root.audit, damage=damage), [])
    served = read(lambda: champion.champion(root, entries), None)
    there = read(lambda: records.publications(root), {})
    lost = [version for version in versions.numbers(root.serving) if version not in there]
    damage += [f"version {version}: {champion.damage_of(root, version)[0]}" for version in lost]
    return Overview(
        root=root,
        served=served,
        store=read(lambda: store.describe(root, settings), None),
        hold=read(lambda: records.why_on_hold(root), None),
        cycles=read(lambda: records.cycle_history(root, damage=damage), []),
        publications=there,
        barred=read(lambda: publish_lib.quarantined(root.serving), {}),
        entries=entries,
        ahead=read(lambda: records.ahead_of_clock(root, now), None),
        damage=[*dict.fromkeys(damage)],
    )


def status(known: Overview, *, now: datetime.datetime) -> list[Section]:
    """Shows the served version, damage, a hold, and the newest cycles."""
    cycles, there = cycle_table(known), version_table(known)
    hidden = len(cycles.rows) - _LISTED
    older = f" ({hidden} older ones: --json)" if hidden > 0 else ""
    newest = Table(
        header=[_CYCLE[at] for at in _SHORT],
        rows=[[row[at] for at in _SHORT] for row in cycles.rows[-_LISTED:]],
    )
    gone = [f"quarantined: cycle {cycle}, {reason}" for cycle, reason in known.barred.items()]
    listed = Table(header=_VERSION[:3], rows=[row[:3] for row in there.rows])
    title = "versions, the newest last, which is served:" if there.rows else ""
    head = [*_served(known, now), *(store_lines(known.store) if known.store else ()), *_held(known)]
    return [
        Section(parts=[*head, *damage_lines(known)]),
        Section(title=f"cycles, the newest last{older}:", parts=[newest])
        if cycles.rows
        else Section(parts=["no cycle was started yet"]),
        *([Section(title=title, parts=[*([listed] if title else []), *gone])] if title or gone else []),
        *_missed(left_out.last_told(known.entries)),
    ]


def plan(plan: Plan) -> list[Section]:
    """Shows what reconcile would do now, and why."""
    served = f"version {plan.champion.version}" if plan.champion else "nothing yet"
    anchor = f"; anchor: version {plan.anchor.version}" if plan.anchor else ""
    notes = (f"note: {note}" for note in (*plan.rewritten, *plan.undecided))
    what, *why = _would(plan)
    return [
        Section(title=what, parts=why),
        Section(parts=[f"served: {served}{anchor}", *notes]),
        _spans(plan),
        *_missed(plan.window.gaps),
    ]


def as_json(known: Overview) -> dict:
    """Returns everything, for programs."""
    served = known.served
    here = {"version": served.version, "cycle": served.cycle, "at": served.at} if served else None
    return {
        "model": known.root.name,
        "served": here,
        "damage": known.damage,
        "store": known.store,
        "hold": known.hold,
        "left_out": left_out.last_told(known.entries),
        "cycles": [
            {
                "cycle": cycle.id,
                "decision": cycle.decision,
                "plan": cycle.plan,
                "end": cycle.end,
                "failure": cycle.failure,
            }
            for cycle in known.cycles
        ],
        "versions": [dict(document) for document in known.publications.values()],
        "quarantined": known.barred,
        "audit": known.entries,
    }


def plan_as_json(plan: Plan) -> dict:
    """Returns the content of `plan`, for programs."""
    return {
        "cycle": plan.id,
        "due": plan.due,
        "waits": plan.waits,
        "held": plan.held,
        "drifts": [str(drift) for drift in plan.drifts],
        "goes_on": bool(plan.goes_on),
        "failed": plan.failed.failure if plan.failed else None,
        "notes": plan.notes,
        "undecided": plan.undecided,
        "training": [span.name for span in plan.window.training],
        "holdout": [span.name for span in plan.window.holdout],
        "left_out": {span.name: span.unusable for span in plan.window.left_out},
        "champion": plan.champion.version if plan.champion else None,
        "anchor": plan.anchor.version if plan.anchor else None,
    }


def cycle_table(known: Overview) -> Table:
    """Lists all cycles, the newest last."""
    found, cycles = known.published, known.root.cycles.absolute().as_uri()
    rows = [
        [
            Cell(text=cycle.id, link=f"{cycles}/{cycle.id}/report.html"),
            time(cycle.plan["at"]),
            window_line(cycle.plan),
            Cell(text=_decision(cycle, found), style=f"decision {cycle.decision}"),
            found.get(cycle.id, ""),
            why(cycle),
        ]
        for cycle in known.cycles
    ]
    return Table(header=_CYCLE, rows=rows, numbers={4})


def version_table(known: Overview) -> Table:
    """Lists all versions that may be served, the newest last."""
    served = known.served
    rows = [
        [version, time(each["at"]), each["cycle"], "served" if served and version == served.version else ""]
        for version, each in known.publications.items()
    ]
    return Table(header=_VERSION, rows=rows, numbers={0})


def damage_lines(known: Overview) -> list[str]:
    """Formats what is damaged, and what was recorded ahead of the clock."""
    ahead = known.ahead and f"the log is ahead of the clock, up to {time(known.ahead.last)}: {AFTER_CLOCK}"
    return [*(f"damaged: {each}" for each in known.damage), *([ahead] if ahead else [])]


def why(cycle: Cycle) -> str:
    """Returns one line that says why a cycle ended as it did."""
    if cycle.failure:
        return f"{cycle.failure['stage']}: {cycle.failure['error']}"
    if cycle.end:
        return cycle.end["reasons"][0] if cycle.end["reasons"] else ""
    done = [path.stem for path in cycle.folder.glob("*.json")]
    return f"{len(done)} stages are done; `reconcile` goes on"


def time(text: str) -> str:
    """Formats a time to the minute."""
    return f"{datetime.datetime.fromisoformat(text):%Y-%m-%d %H:%M}"


def span_line(span: Span) -> str:
    """Formats the result of a conversion."""
    if span.unusable:
        return f"span {span.name}: left out, {span.unusable}"
    return f"span {span.name}: {span.rows:,} rows"


def cycle_line(plan: Plan, written: Mapping) -> str:
    """Formats the head above the stages of a cycle, whose plan is `written`."""
    how = "goes on" if plan.goes_on else "begins"
    due = f": {'; '.join(written['due'])}" if written["due"] else ""
    return "\n  ".join([f"cycle {plan.id} {how}{due}", *plan.rewritten, window_line(written)])


def window_line(plan: Mapping) -> str:
    """Formats what a cycle is trained on, without which spans, evaluated on and compared with."""
    missed = [span["name"] for span in plan["left_out"]]
    trained, evaluated = (
        _range([span["name"] for span in records.spans_of(plan, role)], missed)
        for role in ("training", "holdout")
    )
    met = plan["champion"].get("version")
    against = f"against version {met}" if met else "the first model"
    return f"trained on {trained}, evaluated on {evaluated}, {against}"


def hold_line(found: Mapping) -> str:
    """Formats a hold."""
    since = f" since {found['at'][:16]}" if found["at"] else ""
    return f"held by {found['by'] or 'a person'}{since}: {found['reason']}"


def after_hold(found: Mapping) -> str:
    """Returns what a person should do next."""
    return AFTER_DRIFT if found["by"] == "drift" else "`release --reason=…` ends the hold"


def store_lines(said: Mapping) -> Iterator[str]:
    """Yields the store's served version and a line for each difference; `said` is from store.describe."""
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


def stage_line(name: str, said: Mapping) -> str:
    """Formats the result of a stage in a few words."""
    return STAGES[name](said)


def _data(said: Mapping) -> str:
    training, holdout = (said[part]["rows"] for part in ("training", "holdout"))
    evaluated = sum(holdout.values())
    splits = ", ".join(f"{split} {rows:,}" for split, rows in training.items())
    return f"{sum(training.values()):,} rows to train with ({splits}), {evaluated:,} to evaluate with"


def _train(said: Mapping) -> str:
    numbers = [f"{key} {value:.4f}" for key, value in said["metrics"].items() if isinstance(value, float)]
    return ", ".join(numbers[:3])


def _checked(said: Mapping) -> str:
    return "passed" if said["passed"] else f"FAILED: {said['reasons'][0]}"


def _verify(said: Mapping) -> str:
    if said["version"] is None:
        return "nothing to verify"
    return "it serves" if said["passed"] else f"TAKEN BACK: {said['reasons'][0]}"


def _gc(said: Mapping) -> str:
    done_to = (("versions", "removed"), ("cycles", "emptied"))
    done = [f"{len(said[key])} {key} {verb}" for key, verb in done_to if said[key]]
    return ", ".join(done) or "nothing to remove"


STAGES = {
    "data": _data,
    "train": _train,
    "export": lambda said: f"step {said['step']:,}, {said['parameters']:,} parameters",
    "parity": _checked,
    "evaluate": lambda said: f"{said['rows']:,} rows scored by {', '.join(said['models'])}",
    "infra": _checked,
    "decide": lambda said: f"{said['decision']}: {''.join(said['reasons'][:1])}",
    "publish": lambda said: f"version {said['version']}" if said["version"] else f"nothing, {said['why']}",
    "verify": _verify,
    "gc": _gc,
}


def _served(known: Overview, now: datetime.datetime) -> list[str]:
    name, served = known.root.name, known.served
    if served is None:
        is_lost = known.damage and (known.published or known.publications)
        return [f"model {name}: {'what is served is damaged' if is_lost else 'nothing is published yet'}"]
    published_at = f"published {time(served.at)} ({_ago(served.at, now)})"
    return [
        f"model {name}: version {served.version} is served, of cycle {served.cycle}, {published_at}",
        f"  {served.directory}",
    ]


def _held(known: Overview) -> list[str]:
    return [hold_line(known.hold), f"  {after_hold(known.hold)}"] if known.hold else []


def _would(plan: Plan) -> Sequence[str]:
    """Returns what would happen, then why."""
    if plan.held:
        return [f"nothing would happen: {plan.held}"]
    if plan.drifts:
        drifts = [*map(str, plan.drifts[:_LISTED]), AFTER_DRIFT]
        return ["retraining would be held, until a person has looked, because new data moved far:", *drifts]
    if plan.failed:
        failure = f"{plan.failed.failure['stage']}: {plan.failed.failure['error']}"
        return [f"nothing would happen: cycle {plan.id} failed with these inputs", failure]
    if plan.goes_on:
        return [f"cycle {plan.id} would go on: it was started {time(plan.goes_on.plan['at'])}"]
    if plan.due:
        return [f"cycle {plan.id} would begin, which is due:", *plan.due]
    return ["nothing would happen:", *plan.waits]


def _spans(plan: Plan) -> Section:
    shown = sorted([*plan.window.spans, *plan.window.left_out], key=lambda each: each.name)
    rows = [
        (span.name, "" if span.rows is None else f"{span.rows:,}", _role(span, plan), _state(span, plan))
        for span in shown[-_LISTED:]
    ]
    older = f" ({len(shown) - _LISTED} older ones: --json)" if len(shown) > _LISTED else ""
    table = Table(header=("span", "rows", "role", "state"), rows=rows)
    return Section(title=f"spans{older}:", parts=[table]) if shown else Section(parts=["no spans"])


def _role(span: Span, plan: Plan) -> str:
    roles = {"train": plan.window.training, "evaluate": plan.window.holdout}
    return " and ".join(role for role, spans in roles.items() if span in spans) or "left out"


def _state(span: Span, plan: Plan) -> str:
    if span.unusable:
        return span.unusable
    if span.result is None:
        return "new: would be converted first"
    return "new" if span in plan.new else "seen"


def _decision(cycle: Cycle, found: Mapping[str, int]) -> str:
    """Formats the decision, and whether a person decided otherwise; `found` is from `published`."""
    by_person = cycle.id in found and cycle.decision != PROMOTE
    backfill = " (backfill)" if cycle.plan["backfill"] else ""
    return f"{cycle.decision}{backfill}{', promoted by a person' if by_person else ''}"


def _numbers(numbers: Sequence[int]) -> str:
    return f"version{'s' if len(numbers) > 1 else ''} {', '.join(map(str, sorted(numbers)))}"


def _range(names: Sequence[str], missed: Sequence[str]) -> str:
    """Formats the names of spans, and how many of those `missed` lie between them."""
    if len(names) == 1:
        return f"span {names[0]}"
    between = [name for name in missed if names[0] < name < names[-1]]
    count = f"{len(names)} of {len(names) + len(between)}" if between else f"{len(names)}"
    return f"{count} spans, {names[0]} to {names[-1]}{left_out.names_line(between)}"


def _missed(reasons: Mapping[str, str]) -> list[Section]:
    found = list(left_out.lines(reasons))
    return [Section(parts=found)] if found else []


def _ago(text: str, now: datetime.datetime) -> str:
    hours = (now - datetime.datetime.fromisoformat(text)).total_seconds() / 3600
    if abs(hours) < 1:
        return f"{60 * hours:.0f} minutes ago"
    return f"{hours / 24:.1f} days ago" if hours >= 48 else f"{hours:.1f} hours ago"
