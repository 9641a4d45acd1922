"""Looks at the data, decides whether a cycle is due, and runs it. A scheduler calls this."""

import dataclasses
import datetime
import pathlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TextIO

from pipeline.base import files
from pipeline.base.errors import InputError, shortage
from pipeline.retraining import datasets, left_out, notify, records, store
from pipeline.retraining import plan as plan_lib
from pipeline.retraining.champion import Served
from pipeline.retraining.datasets import Span
from pipeline.retraining.job import HeldError, Job
from pipeline.retraining.plan import Plan, Window
from pipeline.retraining.records import SUPERSEDED, Cycle, Root
from pipeline.retraining.settings import Settings, ending_at
from pipeline.retraining.status import AFTER_DRIFT, after_hold, cycle_line, hold_line, span_line

EXIT_REJECTED = 10  # with --fail_on_reject: the decision of a cycle was not to promote

Clock = Callable[[], datetime.datetime]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Outcome:
    """The outcome of a call.

    Attributes:
      did: "nothing", "held" or "cycle".
      why: one or more sentences.
      cycle, decision, version: how a cycle ended; empty or None where none did.
      left_out: spans that cannot be used, and the reasons.
    """

    did: str
    why: Sequence[str]
    cycle: str = ""
    decision: str = ""
    version: int | None = None
    left_out: Mapping[str, str] = dataclasses.field(default_factory=dict)


def reconcile(
    path: pathlib.Path, settings: Settings, *, clock: Clock, retry: bool = False, out: TextIO | None = None
) -> Outcome:
    """Does what is due, once. Before that, gives the store the versions that are served here.

    Args:
      path: the root.
      retry: whether to try a failed cycle again.
      out: where progress is printed; None: stdout.

    Raises:
      TryAgainError: another process retrains here, or there is an obstacle that may be gone later.
      InputError: a person must correct something.
    """
    with records.open_root(path, name=settings.name) as root:
        records.check_clock(root, clock())  # comes before anything is converted or recorded
        # This is also done on hold, because the versions that are served here were decided before.
        store.follow(root, settings, at=clock())
        if held := records.why_on_hold(root):
            return Outcome(did="held", why=(hold_line(held), after_hold(held)))
        spans = convert_needed(root, settings, clock=clock, out=out)
        plan = plan_lib.make(root, settings, spans, now=clock())
        left_out.tell(root, settings, plan.window.missed, at=clock())
        if plan.drifts:
            return _hold(root, settings, plan, at=clock())
        if plan.failed:
            _try_again(root, plan.failed, retry=retry, at=clock())
        if not (plan.due or plan.goes_on):
            return Outcome(did="nothing", why=(*plan.rewritten, *plan.waits), left_out=plan.window.gaps)
        _supersede(root, plan, at=clock())
        return _run(root, settings, plan, clock=clock, out=out)


def convert_needed(root: Root, settings: Settings, *, clock: Clock, out: TextIO | None = None) -> list[Span]:
    """Returns the spans; converts those that the window needs and that nobody has converted."""
    sources = settings.sources(root)
    spans = datasets.survey_spans(root, sources)
    while True:
        window = plan_lib.choose_window(spans, settings)
        datasets.check_usable(sources, window.left_out)
        needed = [span for span in window.spans if span.result is None]
        if not needed:
            return spans
        for span in needed:
            converted = datasets.converted_span(root, sources, span, at=clock())
            datasets.check_usable(sources, [converted])
            print(span_line(converted), file=out, flush=True)
        # A span that has just turned out to be unusable no longer hides an equal one.
        spans = datasets.known_spans(root, sources, [span.raw for span in spans])


def _run(
    root: Root,
    settings: Settings,
    plan: Plan,
    *,
    clock: Clock,
    out: TextIO | None,
    backfill: bool = False,
    publishes: bool = True,
) -> Outcome:
    """Starts the cycle, or goes on with it, to its end. A cycle of a backfill is not run twice."""
    # Imported here, because the stages import TensorFlow, which takes seconds.
    from pipeline.base import tensorflow_start  # noqa: F401 - before TensorFlow

    # isort: split
    from pipeline.retraining import cycle

    written = (
        plan.goes_on.plan if plan.goes_on else start(root, settings, plan, at=clock(), backfill=backfill)
    )
    print(cycle_line(plan, written), file=out, flush=True)
    job = Job(root=root, settings=settings, id=plan.id, plan=written, now=clock, publishes=publishes)
    try:
        end = (backfill and records.read_cycle(job.folder).end) or cycle.run(job, out=out)
    except HeldError as error:
        return Outcome(did="held", why=(str(error),), cycle=plan.id)
    return Outcome(
        did="cycle",
        why=end["reasons"],
        cycle=plan.id,
        decision=end["decision"],
        version=end["version"],
        left_out=plan.window.gaps,
    )


def _hold(root: Root, settings: Settings, plan: Plan, *, at: datetime.datetime) -> Outcome:
    """Holds retraining because of drift, and notifies."""
    spans = sorted({drift.span.key for drift in plan.drifts})
    why = str(plan.drifts[0]) + (f"; and {len(plan.drifts) - 1} more" if len(plan.drifts) > 1 else "")
    records.put_hold(root, reason=why, by="drift", at=at, spans=spans)
    notify.send(root, settings, {"event": "hold", "reason": why})
    return Outcome(did="held", why=(*map(str, plan.drifts), AFTER_DRIFT), left_out=plan.window.gaps)


def _try_again(root: Root, failed: Cycle, *, retry: bool, at: datetime.datetime) -> None:
    """Raises InputError for a cycle that failed with the same inputs, unless a person retries it.

    Earlier versions also recorded a shortage as a failure; such a cycle is tried again.
    """
    if not retry and not shortage(RuntimeError(failed.failure["error"])):
        raise InputError(
            f"cycle {failed.id}",
            received=f"a failure in stage '{failed.failure['stage']}': {failed.failure['error']}",
            expected="other inputs than those that it failed with",
            action="Correct what it names; or try it again as it is: `pipeline.retrain reconcile --retry`.",
        )
    records.add_entry(root.audit, records.RETRIED, at=at, cycle=failed.id)
    path = failed.folder / records.FAILED
    before = len(list(failed.folder.glob("failed.*.json")))
    path.rename(failed.folder / f"failed.{before + 1}.json")
    files.synchronise(failed.folder)


def _supersede(root: Root, plan: Plan, *, at: datetime.datetime) -> None:
    """Ends cycles that cannot go on: their spans, config, code or champion have changed."""
    why = "its spans, the config, the code or the champion changed before it was finished"
    for cycle in plan.left:
        records.add_entry_once(root.audit, "left", at=at, cycle=cycle.id, why=why)
        records.write_end(cycle.folder, SUPERSEDED, at=at, reasons=[why])


# --- The start of a cycle: once its plan is written, it exists.


def start(
    root: Root, settings: Settings, plan: Plan, *, at: datetime.datetime, backfill: bool = False
) -> dict:
    """Writes the plan of a cycle and returns it; the plan of a cycle that was started before stays as it is.

    Args:
      backfill: whether a person requested the cycle, for spans of the past.
    """
    folder = root.cycle(plan.id)
    folder.mkdir(parents=True, exist_ok=True)
    files.synchronise(root.cycles)
    return records.write_result(
        folder / records.PLAN,
        {
            "cycle": plan.id,
            "at": at.isoformat(),
            "due": plan.due,
            "notes": plan.notes,
            "spans": [_span(span, plan.window) for span in plan.window.spans],
            "left_out": [{"name": span.name, "why": span.unusable} for span in plan.window.left_out],
            "champion": _served(plan.champion),
            "anchor": _served(plan.anchor),
            "backfill": backfill,
            "work": plan.work,
            "settings": plan.settings_digest,
            "code": plan_lib.code_digest(),
            "config": settings.public(),
        },
    )


def _span(span: Span, window: Window) -> dict:
    roles = {"training": window.training, "holdout": window.holdout}
    return {
        "name": span.name,
        "fingerprint": span.fingerprint,
        "roles": [role for role, spans in roles.items() if span in spans],
        "raw": str(span.raw.path),
        "raw_digest": span.raw.digest,
        "dataset_digest": span.result["dataset_digest"],
        "rows": span.result["rows"],
    }


def _served(served: Served | None) -> Mapping:
    if served is None:
        return {}
    return {
        "version": served.version,
        "cycle": served.cycle,
        "identity": served.identity,
        "at": served.at,
        "export_digest": served.digest,
    }


# --- Backfill: cycles of the past. They train and decide as they would have when each span arrived.


def backfill(
    path: pathlib.Path,
    settings: Settings,
    *,
    start: str,
    end: str,
    publishes: bool,
    clock: Clock,
    out: TextIO | None = None,
) -> Iterator[Outcome]:
    """Runs a cycle for each span from `start` to `end`, as if it were the last span; no cycle is run twice.

    Args:
      start, end: names of spans; empty: the first and the last span.
      publishes: whether to publish what is promoted.

    Raises:
      InputError: no span lies between them; or as `reconcile`.
    """
    with records.open_root(path, name=settings.name) as root:
        records.check_clock(root, clock())
        if held := records.why_on_hold(root):
            yield Outcome(did="held", why=(hold_line(held),))
            return
        for name in _span_names(root, settings, start, end):
            past = ending_at(settings, name)
            spans = convert_needed(root, past, clock=clock, out=out)
            plan = plan_lib.make(root, past, spans, now=clock(), backfill=True)
            if plan.window.missing:
                yield Outcome(did="nothing", why=(f"span {name}: {plan.window.missing}",))
                continue
            outcome = _run(root, past, plan, clock=clock, out=out, backfill=True, publishes=publishes)
            yield outcome
            if outcome.did == "held":
                return


def _span_names(root: Root, settings: Settings, start: str, end: str) -> list[str]:
    found = [span.name for span in datasets.survey_spans(root, settings.sources(root)) if not span.unusable]
    names = [name for name in found if (not start or name >= start) and (not end or name <= end)]
    if not names:
        raise InputError(
            f"--from={start} --to={end}",
            received="no span between them",
            expected=f"names of spans, from '{found[0]}' to '{found[-1]}'"
            if found
            else "spans that can be used",
            action="Correct them; `pipeline.retrain plan` lists the spans.",
        )
    return names
