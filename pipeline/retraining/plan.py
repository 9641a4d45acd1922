"""Plans what would happen now, and why. The same inputs always give the same cycle."""

import dataclasses
import datetime
import functools
import hashlib
import importlib.metadata
import json
import pathlib
import platform
from collections.abc import Callable, Iterator, Mapping, Sequence

from croniter import CroniterBadDateError, croniter

from pipeline.base.errors import InputError, unknown_name
from pipeline.data.schema import schema as schema_lib
from pipeline.data.schema.schema import Schema
from pipeline.gate.metrics import METRICS
from pipeline.retraining import champion, datasets, groups, records
from pipeline.retraining.champion import Drift, Served
from pipeline.retraining.datasets import Span
from pipeline.retraining.records import PROMOTE, Cycle, Root
from pipeline.retraining.settings import CHAMPION, LATER, Settings
from pipeline.training.experiment import example_weights

# --- The window: spans to train on, and spans to evaluate on.


@dataclasses.dataclass(frozen=True, kw_only=True)
class Window:
    """Spans in the order in which they are read.

    Attributes:
      left_out: spans that cannot be used; their `unusable` says why.
      missing: the reason why there is nothing to train on or to evaluate on; empty if there is something.
    """

    training: tuple[Span, ...]
    holdout: tuple[Span, ...]
    left_out: tuple[Span, ...]
    missing: str = ""

    @property
    def spans(self) -> tuple[Span, ...]:
        """All spans of the window, each once, in order."""
        return tuple(dict.fromkeys((*self.training, *self.holdout)))

    @property
    def gaps(self) -> dict[str, str]:
        """Maps each span that is left out to the reason, without those older than the window."""
        return {span.name: span.unusable for span in self.missed}

    @property
    def missed(self) -> tuple[Span, ...]:
        """The spans that are left out, without those older than the window."""
        first = self.spans[0].name if self.spans else ""
        return tuple(span for span in self.left_out if span.name >= first)


def choose_window(spans: Sequence[Span], settings: Settings) -> Window:
    """Chooses the window of the settings; spans that are not converted yet count as usable.

    Raises:
      InputError: config.window.start comes after config.window.end.
    """
    holdout, start, end = settings.holdout, settings.window.start, settings.window.end
    if start and end and start > end:
        raise InputError(
            "config.window.start",
            received=f"'{start}', which comes after config.window.end='{end}'",
            expected="the name of a span that is not later",
            action="Correct one of them. Spans are ordered by their names, as text.",
        )
    inside = [span for span in spans if (not start or span.name >= start) and (not end or span.name <= end)]
    usable = [span for span in inside if not span.unusable]
    is_later = holdout.kind == LATER
    held = holdout.last if is_later else 0
    before = usable[: len(usable) - held] if held <= len(usable) else []
    training = before[-settings.window.last :] if settings.window.last else before
    least = settings.window.least
    missing = (
        f"{_count(len(usable))} can be used; {least} to train on"
        f"{f' and {held} behind them to evaluate with' if held else ''} are needed"
        if len(training) < least
        else ""
    )
    return Window(
        training=tuple(training),
        holdout=tuple(usable[len(before) :] if is_later else training),
        left_out=tuple(span for span in inside if span.unusable),
        missing=missing,
    )


def _count(spans: int) -> str:
    return "1 span" if spans == 1 else f"{spans or 'no'} spans"


# --- The plan.


FORMAT = "penstock.cycle/1"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Plan:
    """The next step of retraining.

    Attributes:
      id: the id of the cycle that these inputs make.
      work: the digest of the data to train and evaluate on, without the champion.
      due: the reasons why a cycle is due, a sentence each; empty if it is not.
      waits: what the cycle waits for, if it is not due.
      held: the reason why nothing may happen at all; empty if nothing is held.
      drifts: the drifts of new spans that are too large to continue without a person.
      goes_on: the unfinished cycle with these inputs, or another one that may still continue; None where
        there is none.
      failed: the cycle with these inputs that failed, and would fail again; None where there is none.
      left: unfinished cycles whose inputs are gone.
      rewritten: spans that changed since an earlier cycle used them, a sentence each.
      left_out: spans that cannot be used, a sentence each.
      undecided: how many examples would decide, where the last verdict was open.
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
    goes_on: Cycle | None
    failed: Cycle | None
    left: tuple[Cycle, ...]
    rewritten: tuple[str, ...]
    left_out: tuple[str, ...]
    new: tuple[Span, ...]
    undecided: tuple[str, ...] = ()

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes for a person about the spans."""
        return (*self.rewritten, *self.left_out)


def make(
    root: Root, settings: Settings, spans: Sequence[Span], *, now: datetime.datetime, backfill: bool = False
) -> Plan:
    """Makes the plan; changes nothing.

    Args:
      backfill: whether a person requests a cycle of the past, which has an id of its own, and is not compared
        with a model that was trained on its holdout.

    Raises:
      InputError: a stage result is damaged, the champion or the anchor is gone, the clock was set back, or
        the config is invalid, for example names a feature that the schema lacks.
    """
    check_features(settings, schema_lib.load(settings.sources(root).conversion.schema))
    records.check_clock(root, now)
    entries, cycles = records.audit_entries(root.audit), records.cycle_history(root)
    served = champion.champion(root, entries)
    champion.require_same_anchor(root, settings.gate_anchor, [cycle.plan for cycle in cycles])
    anchor = champion.anchor(root, settings.gate_anchor)
    window = choose_window(spans, settings)
    if backfill:
        served, anchor = (_unseen(root, each, window) for each in (served, anchor))
    decided = [cycle for cycle in cycles if cycle.has_decided and not cycle.plan["backfill"]]
    new = new_spans(window.spans, decided)
    digest = settings.digest()
    work = _work(settings, digest, window, served)
    others = [each and each.identity for each in (served, anchor)]
    own = _digest([FORMAT, work, *others, *(["backfill"] if backfill else [])])[:16]
    drifts = champion.measure_drift(root, new, served, ignored=settings.drift.ignore)
    situation = Situation(
        settings=settings,
        settings_digest=digest,
        spans=window.spans,
        champion=served,
        decided=decided,
        drifts=drifts,
        now=now,
    )
    again = () if backfill else _decided_before(decided, work, served)
    due = () if window.missing or again else tuple(due_triggers(situation))
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
        waits=(window.missing,) if window.missing else (*again, *why_not_yet(situation)),
        held=_held(root),
        drifts=tuple(_holding(drifts, settings, entries)),
        goes_on=goes_on,
        failed=next((cycle for cycle in cycles if cycle.id == own and cycle.failure), None),
        left=tuple(cycle for cycle in open_ones if cycle != goes_on),
        rewritten=tuple(_rewritten(window, cycles)),
        left_out=tuple(f"span {span.name} is left out: {span.unusable}" for span in window.left_out),
        new=tuple(new),
        undecided=tuple(stated_examples(decided)),
    )


def _unseen(root: Root, served: Served | None, window: Window) -> Served | None:
    """Returns the model, unless it was trained on a span of the holdout."""
    cycle = records.read_cycle(root.cycle(served.cycle)) if served else None
    if cycle is None:
        return None
    trained = {span["name"] for span in records.spans_of(cycle.plan, "training")}
    is_later = {span.name for span in window.holdout}.isdisjoint(span.name for span in window.training)
    return None if is_later and trained & {span.name for span in window.holdout} else served


def _work(settings: Settings, digest: str, window: Window, served: Served | None) -> str:
    """Digests the inputs of the work. The champion is one of them if training starts with its weights."""
    warmed = settings.train.start == CHAMPION and served
    return _digest(
        [
            digest,
            code_digest(),
            [span.key for span in window.training],
            [span.key for span in window.holdout],
            warmed and served.identity,
        ]
    )


def stated_examples(decided: Sequence[Cycle]) -> Iterator[str]:
    """Yields how many examples would decide, where the last verdict was open."""
    for cycle in decided[-1:]:
        gate = (records.read_result(cycle.folder / "decide.json") or {}).get("gate", {})
        if gate.get("examples") is not None:
            yield (
                f"cycle {cycle.id} was UNDECIDED on {gate['rows']:,} rows of its holdout: "
                f"about {gate['examples']:,} would decide"
            )


def _decided_before(decided: Sequence[Cycle], work: str, served: Served | None) -> tuple[str, ...]:
    """The reason why the same work is not done again: its outcome is known. It is not known if the champion
    was another.
    """
    for cycle in decided:
        if cycle.plan["work"] != work:
            continue
        if cycle.decision == PROMOTE or _met(cycle, served):
            return (f"cycle {cycle.id} has evaluated these spans with this config: {cycle.decision}",)
    return ()


def _still_holds(
    cycle: Cycle,
    own: str,
    digest: str,
    spans: Sequence[Span],
    served: Served | None,
) -> bool:
    """Returns whether an unfinished cycle may continue, although there may be more spans by now."""
    plan = cycle.plan
    usable = {span.key for span in spans if not span.unusable}
    return cycle.id == own or (
        plan["settings"] == digest
        and plan["code"] == code_digest()
        and _met(cycle, served)
        and cycle.spans <= usable
    )


def _met(cycle: Cycle, served: Served | None) -> bool:
    """Returns whether the champion is the one in the cycle's plan, or the version that the cycle
    published.
    """
    met = cycle.plan["champion"]
    if served is None:
        return not met
    return met.get("identity") == served.identity or served.cycle == cycle.id


def _held(root: Root) -> str:
    found = records.why_on_hold(root)
    return f"held by {found['by'] or 'a person'}: {found['reason']}" if found else ""


def _holding(drifts: Sequence[Drift], settings: Settings, entries: Sequence[Mapping]) -> Iterator[Drift]:
    """Yields the drifts that a person has not accepted yet."""
    least, passed = settings.drift.hold, records.accepted_spans(entries)
    yield from (each for each in drifts if least and each.value >= least and each.span.key not in passed)


def _rewritten(window: Window, cycles: Sequence[Cycle]) -> Iterator[str]:
    used = {(name, fingerprint): cycle.id for cycle in cycles for name, fingerprint in cycle.spans}
    names = {name: cycle for (name, _), cycle in used.items()}
    for span in window.spans:
        if span.name in names and span.key not in used:
            yield f"span {span.name} is not what cycle {names[span.name]} used: it is a new input"


def _digest(of: object) -> str:
    return hashlib.sha256(json.dumps(of).encode()).hexdigest()


# --- Triggers: new spans, the schedule, the age of the champion, drift, or another config.


@dataclasses.dataclass(frozen=True, kw_only=True)
class Situation:
    """The inputs of the triggers.

    Attributes:
      spans: the spans of the window and the holdout.
      decided: cycles that reached a decision, the oldest first.
      drifts: the drifts of the new spans that are converted.
      settings_digest: see Settings.digest.
    """

    settings: Settings
    settings_digest: str
    spans: Sequence[Span]
    champion: Served | None
    decided: Sequence[Cycle]
    drifts: Sequence[Drift]
    now: datetime.datetime


def new_spans(spans: Sequence[Span], decided: Sequence[Cycle]) -> list[Span]:
    """Returns the spans that no decided cycle has used in their present state."""
    seen = {key for cycle in decided for key in cycle.spans}
    return [span for span in spans if span.key not in seen]


def due_triggers(situation: Situation) -> Iterator[str]:
    """Yields a sentence for each trigger that makes a cycle due."""
    triggers, decided, now = situation.settings.triggers, situation.decided, situation.now
    fresh = new_spans(situation.spans, decided)
    if triggers.new_spans and len(fresh) >= triggers.new_spans:
        names = ", ".join(span.name for span in fresh[:3]) + (", …" if len(fresh) > 3 else "")
        yield f"{len(fresh)} new span{'s' * (len(fresh) != 1)}: {names}"
    if decided and decided[-1].plan["settings"] != situation.settings_digest:
        yield f"the config is another than that of cycle {decided[-1].id}"
    last = _last_scheduled(triggers.cron, now) if triggers.cron else None
    if last and (not decided or datetime.datetime.fromisoformat(decided[-1].plan["at"]) < last):
        yield f"the schedule '{triggers.cron}' was due at {_format(last)}"
    if triggers.age_days and situation.champion and _age(situation) > triggers.age_days:
        age = f"{_age(situation):.1f} days old"
        yield f"version {situation.champion.version} is {age}, more than {triggers.age_days:g}"
    if triggers.drift and situation.drifts and situation.drifts[0].value >= triggers.drift:
        yield f"{situation.drifts[0]}, {triggers.drift:g} or more"


def why_not_yet(situation: Situation) -> Iterator[str]:
    """Yields what each trigger waits for, where none makes a cycle due."""
    triggers = situation.settings.triggers
    if triggers.new_spans:
        there = len(new_spans(situation.spans, situation.decided))
        needed = f"{triggers.new_spans} new span{'s' * (triggers.new_spans != 1)}"
        yield f"{needed} needed, {there} there"
    if triggers.cron:
        coming = _when(croniter(triggers.cron, situation.now).get_next)
        when = f"is due next at {_format(coming)}" if coming else "is never due again"
        yield f"the schedule '{triggers.cron}' {when}"
    if triggers.age_days and situation.champion:
        age = f"{_age(situation):.1f} days old"
        yield f"version {situation.champion.version} is {age}, of {triggers.age_days:g}"
    if triggers.drift:
        farthest = max((drift.value for drift in situation.drifts), default=0.0)
        yield f"new spans drifted by {farthest:.3f} at most, of {triggers.drift:g}"


def _last_scheduled(cron: str, now: datetime.datetime) -> datetime.datetime | None:
    if croniter.match(cron, now):
        return now.replace(second=0, microsecond=0)
    return _when(croniter(cron, now).get_prev)


def _when(search: Callable[[type], datetime.datetime]) -> datetime.datetime | None:
    """Returns the time that the search finds; None if a schedule that names a year has no such time."""
    try:
        return search(datetime.datetime)
    except CroniterBadDateError:
        return None


def _age(situation: Situation) -> float:
    """Returns the days since the champion was published."""
    published = datetime.datetime.fromisoformat(situation.champion.at)
    return (situation.now - published).total_seconds() / 86_400


def _format(time: datetime.datetime) -> str:
    return f"{time:%Y-%m-%d %H:%M} UTC"


# --- The code that trains and evaluates: a digest of this project's files and of the following packages.


_PROJECT = pathlib.Path(__file__).parents[2]
_ROOMS = ("beam_jobs", "models", "pipeline")
# The packages that compute. Python counts too: from 3.12 on, its sums differ in the last bits.
_PACKAGES = ("tensorflow", "keras", "numpy", "apache-beam", "pyarrow", "pillow", "scipy", "statsmodels")


@functools.cache
def code_digest() -> str:
    """Digests the sources and the versions of packages, but not configs, which the cycle's id has already."""
    found = hashlib.sha256()
    for room in _ROOMS:
        for path in sorted((_PROJECT / room).rglob("*.py")):
            inner = path.relative_to(_PROJECT)
            if "configs" not in inner.parts:
                found.update(f"{inner}\0".encode() + path.read_bytes() + b"\0")
    found.update(f"python {platform.python_version()}\0".encode())
    for name in _PACKAGES:
        found.update(f"{name} {importlib.metadata.version(name)}\0".encode())
    return found.hexdigest()


# --- Features and metrics of the config, compared with the schema before anything is trained.


def check_features(settings: Settings, schema: Schema) -> None:
    """Raises InputError for an unknown feature, a metric that the task lacks, or splits by date."""
    datasets.check_splits(schema)
    gate = settings.gate
    groups.require_columns(gate.slices, schema, key="config.gate.slices")
    clustered_by = (gate.clustered_by,) if gate.clustered_by else ()
    groups.require_columns(clustered_by, schema, key="config.gate.clustered_by")
    example_weights.named(settings.holdout.weighted_by, schema, flag="config.holdout.weighted_by")
    names = [feature.name for feature in schema.features]
    for name in settings.drift.ignore:
        _require("config.drift.ignore", name, names, "features of the schema")
    metrics = [metric.name for metric in METRICS[schema.label.task]]
    if gate.metric:
        _require("config.gate.metric", gate.metric, metrics, f"a metric of task '{schema.label.task}'")
    for name in gate.floors:
        _require("config.gate.floors", name, metrics, f"metrics of task '{schema.label.task}'")


def _require(key: str, name: str, known: Sequence[str], what: str) -> None:
    if name not in known:
        otherwise = "Name one of them, or leave it out."
        raise unknown_name(key, name, known, expected=f"{what}:", otherwise=otherwise)
