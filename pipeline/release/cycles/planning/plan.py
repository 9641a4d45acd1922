"""What would happen now, and why. The same inputs give the same cycle, whoever asks and however often."""

import dataclasses
import datetime
import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence

from pipeline.data.schema import schema as schema_lib
from pipeline.release.cycles.planning import champion as champion_lib
from pipeline.release.cycles.planning import code, drift, features, triggers
from pipeline.release.cycles.planning import window as window_lib
from pipeline.release.cycles.planning.champion import Served
from pipeline.release.cycles.planning.drift import Drift
from pipeline.release.cycles.planning.triggers import Situation
from pipeline.release.cycles.planning.window import Window
from pipeline.release.cycles.records import audit, ended, hold
from pipeline.release.cycles.records.ended import PROMOTE, Begun
from pipeline.release.cycles.records.root import Root
from pipeline.release.cycles.settings import CHAMPION, Settings
from pipeline.release.cycles.spans.survey import Span

FORMAT = "penstock.cycle/1"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Plan:
    """Attributes:

    id: of the cycle that these inputs make.
    work: digest of what is trained and judged on, without the champion.
    due: why a cycle is due, a sentence each; none: nothing is.
    waits: where nothing is due, what for.
    held: why nothing may happen at all; empty where nothing holds it.
    drifts: of new spans, too far to go on without a person.
    goes_on: the cycle that was begun with these inputs, or may still go on; None where there is none.
    failed: the cycle of these inputs that failed: it would fail again; None where there is none.
    left: cycles that were begun, are not finished, and whose inputs are gone.
    rewritten: spans that are not what an earlier cycle used, a sentence each.
    left_out: spans that cannot be used, a sentence each.
    """

    id: str
    work: str
    settings_digest: str
    window: Window
    champion: Served | None
    anchor: Served | None
    due: tuple[str, ...]
    waits: tuple[str, ...]
    held: str
    drifts: tuple[Drift, ...]
    goes_on: Begun | None
    failed: Begun | None
    left: tuple[Begun, ...]
    rewritten: tuple[str, ...]
    left_out: tuple[str, ...]
    new: tuple[Span, ...]

    @property
    def notes(self) -> tuple[str, ...]:
        """What a person should know of the spans."""
        return (*self.rewritten, *self.left_out)


def make(
    root: Root, settings: Settings, spans: Sequence[Span], *, now: datetime.datetime, backfill: bool = False
) -> Plan:
    """Looks at everything and changes nothing.

    Args:
      backfill: whether a person asks for a cycle of the past: it has an id of its own, and is not compared
        with a model that was trained on what it is judged by.

    Raises:
      InputError: a receipt is damaged, the champion or the anchor is gone, the clock was set back, or the
        config cannot be, such as of a feature that the schema does not have.
    """
    features.check(settings, schema_lib.load(settings.sources(root).conversion.schema))
    audit.check_clock(root.audit, now)
    entries, cycles = audit.entries(root.audit), ended.cycles(root)
    served = champion_lib.champion(root, entries)
    champion_lib.require_same_anchor(root, settings.config.gate_anchor, [cycle.plan for cycle in cycles])
    anchor = champion_lib.anchor(root, settings.config.gate_anchor)
    window = window_lib.choose(spans, settings.config)
    if backfill:
        served, anchor = (_unseen(root, each, window) for each in (served, anchor))
    judged = [cycle for cycle in cycles if cycle.has_judged and not cycle.plan["backfill"]]
    new = triggers.new_spans(window.spans, judged)
    digest = settings.digest()
    work = _work(settings, digest, window, served)
    met = [each and each.identity for each in (served, anchor)]
    own = _digest([FORMAT, work, *met, *(["backfill"] if backfill else [])])[:16]
    drifts = drift.measured(root, new, served, ignored=settings.config.drift.ignore)
    situation = Situation(
        settings=settings,
        settings_digest=digest,
        spans=window.spans,
        champion=served,
        judged=judged,
        drifts=drifts,
        now=now,
    )
    again = () if backfill else _judged_before(judged, work, served)
    due = () if window.missing or again else tuple(triggers.due(situation))
    open_ones = [
        cycle
        for cycle in cycles
        if not cycle.end and not cycle.failure and cycle.plan["backfill"] == backfill
    ]
    goes_on = next((cycle for cycle in open_ones if _still_holds(cycle, own, digest, spans, served)), None)
    return Plan(
        id=goes_on.id if goes_on else own,
        work=work,
        settings_digest=digest,
        window=window,
        champion=served,
        anchor=anchor,
        due=due,
        waits=(window.missing,) if window.missing else (*again, *triggers.not_yet(situation)),
        held=_held(root),
        drifts=tuple(_holding(drifts, settings, entries)),
        goes_on=goes_on,
        failed=next((cycle for cycle in cycles if cycle.id == own and cycle.failure), None),
        left=tuple(cycle for cycle in open_ones if cycle != goes_on),
        rewritten=tuple(_rewritten(window, cycles)),
        left_out=tuple(f"span {span.name} is left out: {span.unusable}" for span in window.left_out),
        new=tuple(new),
    )


def _unseen(root: Root, served: Served | None, window: Window) -> Served | None:
    """The model, unless it was trained on a span that is judged by now."""
    begun = ended.read(root.cycle(served.cycle)) if served else None
    if begun is None:
        return None
    trained = {span["name"] for span in begun.plan["spans"] if "training" in span["roles"]}
    is_later = {span.name for span in window.holdout}.isdisjoint(span.name for span in window.training)
    return None if is_later and trained & {span.name for span in window.holdout} else served


def _work(settings: Settings, digest: str, window: Window, served: Served | None) -> str:
    """The champion is an input of the training where its weights are the first."""
    warmed = settings.config.train.start == CHAMPION and served
    return _digest(
        [
            digest,
            code.digest(),
            [span.key for span in window.training],
            [span.key for span in window.holdout],
            warmed and served.identity,
        ]
    )


def _judged_before(judged: Sequence[Begun], work: str, served: Served | None) -> tuple[str, ...]:
    """Why the same work is not done again: what it comes to is known, unless it met another champion."""
    for cycle in judged:
        if cycle.plan["work"] != work:
            continue
        if cycle.decision == PROMOTE or _met(cycle, served):
            return (f"cycle {cycle.id} has judged these spans with this config: {cycle.decision}",)
    return ()


def _still_holds(
    cycle: Begun,
    own: str,
    digest: str,
    spans: Sequence[Span],
    served: Served | None,
) -> bool:
    """Whether a cycle that was begun may go on, though there may be more spans by now."""
    plan = cycle.plan
    usable = {span.key for span in spans if not span.unusable}
    return cycle.id == own or (
        plan["settings"] == digest
        and plan["code"] == code.digest()
        and _met(cycle, served)
        and cycle.spans <= usable
    )


def _met(cycle: Begun, served: Served | None) -> bool:
    """Whether the champion is the one that the cycle met, or what it published."""
    met = cycle.plan["champion"]
    if served is None:
        return not met
    return met.get("identity") == served.identity or served.cycle == cycle.id


def _held(root: Root) -> str:
    found = hold.why(root)
    return f"held by {found['by'] or 'a person'}: {found['reason']}" if found else ""


def _holding(drifts: Sequence[Drift], settings: Settings, entries: Sequence[Mapping]) -> Iterator[Drift]:
    """Those that a person must look at first, and has not."""
    least, passed = settings.config.drift.hold, hold.accepted(entries)
    yield from (each for each in drifts if least and each.value >= least and each.span.key not in passed)


def _rewritten(window: Window, cycles: Sequence[Begun]) -> Iterator[str]:
    used = {(name, fingerprint): cycle.id for cycle in cycles for name, fingerprint in cycle.spans}
    names = {name: cycle for (name, _), cycle in used.items()}
    for span in window.spans:
        if span.name in names and span.key not in used:
            yield f"span {span.name} is not what cycle {names[span.name]} used: it is a new input"


def _digest(of: object) -> str:
    return hashlib.sha256(json.dumps(of).encode()).hexdigest()
