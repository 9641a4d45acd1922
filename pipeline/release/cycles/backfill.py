"""Cycles of the past: what would have been trained and decided when each span arrived."""

import pathlib
from collections.abc import Iterator
from typing import TextIO

from pipeline.data.errors import InputError
from pipeline.release.cycles.begin import begin
from pipeline.release.cycles.planning import plan as plan_lib
from pipeline.release.cycles.reconcile import Clock, Outcome, look
from pipeline.release.cycles.records import ended, hold, root
from pipeline.release.cycles.records.root import Root
from pipeline.release.cycles.settings import Settings, ending_at
from pipeline.release.cycles.spans import survey
from pipeline.release.cycles.stages.job import Job
from pipeline.release.cycles.told import lines


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
    with root.opened(path, name=settings.config.name) as opened:
        if found := hold.why(opened):
            yield Outcome(did="held", why=(lines.held(found),))
            return
        for name in _names(opened, settings, start, end):
            yield _of(opened, ending_at(settings, name), name, publishes=publishes, clock=clock, out=out)


def _names(opened: Root, settings: Settings, start: str, end: str) -> list[str]:
    found = [span.name for span in survey.look(opened, settings.sources(opened)) if not span.unusable]
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
    from pipeline.data import quiet  # noqa: F401 - before TensorFlow

    # isort: split
    from pipeline.release.cycles import cycle

    spans = look(opened, settings, clock=clock, out=out)
    plan = plan_lib.make(opened, settings, spans, now=clock(), backfill=True)
    if plan.window.missing:
        return Outcome(did="nothing", why=(f"span {name}: {plan.window.missing}",))
    folder = opened.cycle(plan.id)
    receipt = begin(opened, settings, plan, at=clock(), backfill=True)
    print(lines.of_cycle(plan, receipt), file=out, flush=True)
    job = Job(root=opened, settings=settings, id=folder.name, plan=receipt, now=clock, publishes=publishes)
    before = ended.read(folder)
    end = before.end or cycle.run(job, out=out)
    return Outcome(
        did="cycle", why=end["reasons"], cycle=plan.id, decision=end["decision"], version=end["version"]
    )
