"""Looks at what is there, decides whether anything is due, does it: what a scheduler calls."""

import dataclasses
import datetime
import pathlib
from collections.abc import Callable, Sequence
from typing import TextIO

from pipeline.base import files
from pipeline.base.errors import InputError
from pipeline.retraining import datasets, notify, records, store
from pipeline.retraining import plan as plan_lib
from pipeline.retraining.datasets import Span
from pipeline.retraining.job import HeldError, Job
from pipeline.retraining.plan import Plan
from pipeline.retraining.records import SUPERSEDED, Begun, Root
from pipeline.retraining.settings import Settings
from pipeline.retraining.start import begin
from pipeline.retraining.status import AFTER_DRIFT, after_hold, cycle_line, hold_line, span_line

EXIT_REJECTED = 10  # with --fail_on_reject: a cycle came to another decision than to promote

Clock = Callable[[], datetime.datetime]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Outcome:
    """What a call came to.

    Attributes:
      did: "nothing", "held" or "cycle".
      why: in a sentence or more.
      cycle, decision, version: of a cycle that came to its end; empty or None else.
    """

    did: str
    why: Sequence[str]
    cycle: str = ""
    decision: str = ""
    version: int | None = None


def reconcile(
    path: pathlib.Path, settings: Settings, *, clock: Clock, retry: bool = False, out: TextIO | None = None
) -> Outcome:
    """Does what is due, once. A store that differs from what is served here is brought to it first.

    Args:
      path: the root.
      retry: whether a cycle that failed is tried again.
      out: where the story is told; None: what is stdout when it is told.

    Raises:
      TryAgainError: another process is at it, or something is in the way that may be gone later.
      InputError: a person must correct something.
    """
    with records.open_root(path, name=settings.name) as opened:
        # On hold, too: what is served here was decided before.
        store.follow(opened, settings, at=clock())
        if found := records.why_on_hold(opened):
            return Outcome(did="held", why=(hold_line(found), after_hold(found)))
        spans = look(opened, settings, clock=clock, out=out)
        plan = plan_lib.make(opened, settings, spans, now=clock())
        if plan.drifts:
            return _hold(opened, settings, plan, at=clock())
        if plan.failed:
            _try_again(opened, plan.failed, retry=retry, at=clock())
        if not (plan.due or plan.goes_on):
            return Outcome(did="nothing", why=(*plan.notes, *plan.waits))
        _leave(opened, plan, at=clock())
        return _cycle(opened, settings, plan, clock=clock, out=out)


def look(opened: Root, settings: Settings, *, clock: Clock, out: TextIO | None = None) -> list[Span]:
    """The spans; those that the window needs and nobody has converted are converted now."""
    sources = settings.sources(opened)
    spans = datasets.survey_spans(opened, sources)
    while True:
        window = plan_lib.choose_window(spans, settings)
        needed = [span for span in window.spans if span.receipt is None]
        if not needed:
            return spans
        done = {}
        for span in needed:
            [converted] = datasets.converted_spans(opened, sources, [span], at=clock())
            print(span_line(converted), file=out, flush=True)
            done[span.key] = converted
        spans = [done.get(span.key, span) for span in spans]


def _cycle(opened: Root, settings: Settings, plan: Plan, *, clock: Clock, out: TextIO | None) -> Outcome:
    # Imported here: the stages bring TensorFlow, which takes seconds.
    from pipeline.base import tensorflow_start  # noqa: F401 - before TensorFlow

    # isort: split
    from pipeline.retraining import cycle

    receipt = plan.goes_on.plan if plan.goes_on else begin(opened, settings, plan, at=clock())
    print(cycle_line(plan, receipt), file=out, flush=True)
    job = Job(root=opened, settings=settings, id=plan.id, plan=receipt, now=clock)
    try:
        end = cycle.run(job, out=out)
    except HeldError as error:
        return Outcome(did="held", why=(str(error),), cycle=plan.id)
    return Outcome(
        did="cycle", why=end["reasons"], cycle=plan.id, decision=end["decision"], version=end["version"]
    )


def _hold(opened: Root, settings: Settings, plan: Plan, *, at: datetime.datetime) -> Outcome:
    """Holds retraining because of drift, and tells."""
    spans = sorted({drift.span.key for drift in plan.drifts})
    why = str(plan.drifts[0]) + (f"; and {len(plan.drifts) - 1} more" if len(plan.drifts) > 1 else "")
    records.put_hold(opened, reason=why, by="drift", at=at, spans=spans)
    notify.send(opened, settings, {"event": "hold", "reason": why})
    return Outcome(did="held", why=(*map(str, plan.drifts), AFTER_DRIFT))


def _try_again(opened: Root, failed: Begun, *, retry: bool, at: datetime.datetime) -> None:
    """Raises InputError for a cycle that failed with the same inputs, unless a person asks for it again."""
    if not retry:
        raise InputError(
            f"cycle {failed.id}",
            received=f"a failure in stage '{failed.failure['stage']}': {failed.failure['error']}",
            expected="other inputs than those that it failed with",
            action="Correct what it names; or try it again as it is: `pipeline.retrain reconcile --retry`.",
        )
    records.add_entry(opened.audit, "retried", at=at, cycle=failed.id)
    path = failed.folder / records.FAILED
    before = len(list(failed.folder.glob("failed.*.json")))
    path.rename(failed.folder / f"failed.{before + 1}.json")
    files.synchronise(failed.folder)


def _leave(opened: Root, plan: Plan, *, at: datetime.datetime) -> None:
    """Ends cycles that cannot go on: their spans, config, code or champion are others by now."""
    for begun in plan.left:
        why = "its spans, the config, the code or the champion changed before it was finished"
        records.add_entry_once(opened.audit, "left", at=at, cycle=begun.id, why=why)
        records.write_result(
            begun.folder / records.ENDED,
            {
                "at": at.isoformat(),
                "decision": SUPERSEDED,
                "version": None,
                "promoted": False,
                "reasons": [why],
            },
        )
