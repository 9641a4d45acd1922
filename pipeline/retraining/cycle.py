"""Runs a cycle stage by stage: a stage that has a result is done; a stage without one is run now."""

import contextlib
import time
from collections.abc import Callable, Iterable, Mapping
from typing import TextIO

from pipeline.base.errors import InputError, TryAgainError, naming_shortages
from pipeline.retraining import notify, records, report, store
from pipeline.retraining.children import KilledError
from pipeline.retraining.collection import collect
from pipeline.retraining.decision import decide, publish, verify
from pipeline.retraining.job import HeldError, Job
from pipeline.retraining.records import RETRIED, TAKEN_BACK
from pipeline.retraining.stages import data, evaluate, export, infra, parity, train
from pipeline.retraining.status import stage_line
from pipeline.training.state import checkpoints
from pipeline.training.state.workdir import Workdir

STARTED, FAILED, POSTPONED = "started", "failed", "postponed"


def gc(job: Job) -> dict:
    """Deletes what no cycle or version needs any more; `collect` has the rules."""
    gone = collect(job.root, job.settings, running=job.id)
    store.follow(job.root, job.settings, at=job.now())
    return gone


# The stages in order; status.STAGES formats their results. reconcile.start writes the plan before. A function
# of a stage is (job) → its result.
STAGES: Mapping[str, Callable[[Job], Mapping]] = {
    stage.__name__: stage
    for stage in (data, train, export, parity, evaluate, infra, decide, publish, verify, gc)
}


def run(job: Job, *, out: TextIO | None = None) -> dict:
    """Runs the cycle to its end, and returns how it ended.

    Raises:
      TryAgainError: there is an obstacle that may be gone later; then the same cycle continues.
      HeldError: a person holds retraining.
      InputError: the cycle failed, and would fail again.
    """
    for name, stage in STAGES.items():
        if records.read_result(job.result_path(name)) is None:
            _run(job, name, stage, out)
    return _end(job)


def _run(job: Job, name: str, stage: Callable[[Job], Mapping], out: TextIO | None) -> None:
    try:
        _count_start(job, name)
        with naming_shortages(f"stage '{name}' of cycle {job.id}", is_repeated=True):
            result = timed(job, name, stage)
    except (TryAgainError, HeldError) as error:
        _postpone(job, name, error)
        raise
    except InputError as error:
        _fail(job, name, error)
        raise
    records.write_result(job.result_path(name), result)
    if name == decide.__name__:
        report.write(job)
    print(f"  {name:<9} {result['seconds']:6.1f} s  {stage_line(name, result)}", file=out, flush=True)


def timed(job: Job, name: str, stage: Callable[[Job], Mapping]) -> dict:
    """Runs a stage, and returns its result with the time that it took."""
    started = time.monotonic()
    document = stage(job)
    seconds = round(time.monotonic() - started, 3)
    return {"stage": name, "at": job.now().isoformat(), "seconds": seconds, **document}


def _count_start(job: Job, name: str) -> None:
    """Logs a start of a stage; raises InputError if too many starts before it led to nothing."""
    progress = _progress(job, name)
    starts, most = (
        count_starts(records.audit_entries(job.root.audit), job.id, name, progress),
        job.settings.attempts,
    )
    if starts >= most:
        raise InputError(
            f"stage '{name}' of cycle {job.id}",
            received=f"{starts} starts that neither ended nor made progress",
            expected=f"an end or progress within {most}, as config.attempts says",
            action="See what kills it (memory? time limits?), then run `pipeline.retrain reconcile --retry`.",
        )
    records.add_entry(job.root.audit, STARTED, at=job.now(), cycle=job.id, stage=name, progress=progress)


def count_starts(entries: Iterable[Mapping], cycle: str, stage: str, progress: int) -> int:
    """Counts the starts of a stage at this progress, since a person retried the cycle.

    A start that was postponed, for example because of a full disk, does not count.
    """
    starts, counted = 0, False
    for entry in entries:
        if entry.get("cycle") != cycle:
            continue
        if entry["act"] == RETRIED:
            starts, counted = 0, False
        elif entry.get("stage") == stage and entry["act"] == STARTED:
            counted = entry.get("progress", 0) == progress
            starts += counted
        elif entry.get("stage") == stage and entry["act"] == POSTPONED:
            starts, counted = starts - counted, False
    return starts


def _progress(job: Job, name: str) -> int:
    """Returns the step of the newest checkpoint; 0 for a stage that starts from the beginning each time."""
    saved = checkpoints.newest_first(Workdir(job.run).checkpoints) if name == train.__name__ else []
    return saved[0].step if saved else 0


def _postpone(job: Job, name: str, error: InputError) -> None:
    """Logs that this start of a stage failed for a reason outside it, unless a process of it was killed."""
    if not isinstance(error, KilledError):
        with contextlib.suppress(OSError):  # the full disk may be this one
            records.add_entry(
                job.root.audit, POSTPONED, at=job.now(), cycle=job.id, stage=name, why=error.received
            )


def _fail(job: Job, name: str, error: InputError) -> None:
    failure = {"stage": name, "error": str(error)}
    records.write_result(job.folder / records.FAILED, {"at": job.now().isoformat(), **failure})
    job.log(FAILED, **failure)
    report.write(job)
    notify.send_of_cycle(job, {"event": "failure", **failure})


def _end(job: Job) -> dict:
    """Writes the end of the cycle, its last result."""
    decided, verified = job.result("decide"), job.result("verify")
    taken_back = not verified["passed"]
    decision = TAKEN_BACK if taken_back else decided["decision"]
    version = None if taken_back else verified["version"]
    reasons = [*verified.get("reasons", ()), *decided["reasons"]]
    job.log("decided", decision=decision, why=reasons[:1], version=version)
    # This is sent before the end is written: two notifications are better than none.
    notify.send_of_cycle(
        job, {"event": "decision", "decision": decision, "version": version, "reasons": reasons}
    )
    end = records.write_end(job.folder, decision, at=job.now(), version=version, reasons=reasons)
    report.write(job)
    return end
