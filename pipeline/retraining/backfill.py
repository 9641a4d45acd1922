"""Cycles of the past: what would have been trained and decided when each span arrived."""

import pathlib
from collections.abc import Iterator
from typing import TextIO

from pipeline.base.errors import InputError
from pipeline.retraining import datasets, records
from pipeline.retraining import plan as plan_lib
from pipeline.retraining.job import Job
from pipeline.retraining.reconcile import Clock, Outcome, look
from pipeline.retraining.records import Root
from pipeline.retraining.settings import Settings, ending_at
from pipeline.retraining.start import begin
from pipeline.retraining.status import cycle_line, hold_line


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
    """A cycle for each span from `start` to `end`, as if it were the last one; what was run is not run again.

    Args:
      start, end: names of spans; empty: the first, the last there is.
      publishes: whether what is promoted is published.

    Raises:
      InputError: no span lies between them; or as `reconcile`.
    """
    with records.open_root(path, name=settings.name) as opened:
        if found := records.why_on_hold(opened):
            yield Outcome(did="held", why=(hold_line(found),))
            return
        for name in _names(opened, settings, start, end):
            yield _of(opened, ending_at(settings, name), name, publishes=publishes, clock=clock, out=out)


def _names(opened: Root, settings: Settings, start: str, end: str) -> list[str]:
    found = [
        span.name for span in datasets.survey_spans(opened, settings.sources(opened)) if not span.unusable
    ]
    asked = [name for name in found if (not start or name >= start) and (not end or name <= end)]
    if not asked:
        raise InputError(
            f"--from={start} --to={end}",
            received="no span between them",
            expected=f"names of spans, from '{found[0]}' to '{found[-1]}'"
            if found
            else "spans that can be used",
            action="Correct them; `pipeline.retrain plan` lists the spans.",
        )
    return asked


def _of(
    opened: Root, settings: Settings, name: str, *, publishes: bool, clock: Clock, out: TextIO | None
) -> Outcome:
    # Imported here: the stages bring TensorFlow, which takes seconds.
    from pipeline.base import tensorflow_start  # noqa: F401 - before TensorFlow

    # isort: split
    from pipeline.retraining import cycle

    spans = look(opened, settings, clock=clock, out=out)
    plan = plan_lib.make(opened, settings, spans, now=clock(), backfill=True)
    if plan.window.missing:
        return Outcome(did="nothing", why=(f"span {name}: {plan.window.missing}",))
    folder = opened.cycle(plan.id)
    receipt = begin(opened, settings, plan, at=clock(), backfill=True)
    print(cycle_line(plan, receipt), file=out, flush=True)
    job = Job(root=opened, settings=settings, id=folder.name, plan=receipt, now=clock, publishes=publishes)
    before = records.read_cycle(folder)
    end = before.end or cycle.run(job, out=out)
    return Outcome(
        did="cycle", why=end["reasons"], cycle=plan.id, decision=end["decision"], version=end["version"]
    )
