"""Runs a cycle stage by stage: a stage with a result is done, one without is done now."""

import time
from collections.abc import Callable, Mapping
from typing import TextIO

from pipeline.base.errors import InputError, TryAgainError, naming_shortages
from pipeline.retraining import notify, records, report, store
from pipeline.retraining.collection import collect
from pipeline.retraining.decision import decide, publish, verify
from pipeline.retraining.job import HeldError, Job
from pipeline.retraining.records import TAKEN_BACK
from pipeline.retraining.stages import data, evaluate, export, infra, parity, train
from pipeline.retraining.status import stage_line

STARTED, FAILED = "started", "failed"


def gc(job: Job) -> dict:
    """Deletes what no cycle or version needs any more; `collect` has the rules."""
    gone = collect(job.root, job.settings, running=job.id)
    store.follow(job.root, job.settings, at=job.now())
    return gone


# The stages in order. reconcile.start writes the plan before. A function of a stage is (job) → its result.
STAGES: Mapping[str, Callable[[Job], Mapping]] = {
    stage.__name__: stage
    for stage in (data, train, export, parity, evaluate, infra, decide, publish, verify, gc)
}


def run(job: Job, *, out: TextIO | None = None) -> dict:
    """Runs the cycle to its end, and returns how it ended.

    Raises:
      TryAgainError: an obstacle may be gone later; then the same cycle goes on.
      HeldError: a person holds retraining.
      InputError: the cycle failed, and would fail again.
    """
    for name, stage in STAGES.items():
        if records.read_result(job.result_path(name)) is None:
            _run(job, name, stage, out)
    return _end(job)


def _run(job: Job, name: str, stage: Callable[[Job], Mapping], out: TextIO | None) -> None:
    started = time.monotonic()
    try:
        _count_start(job, name)
        with naming_shortages(f"stage '{name}' of cycle {job.id}", is_repeated=True):
            document = stage(job)
    except (TryAgainError, HeldError):
        raise
    except InputError as error:
        _fail(job, name, error)
        raise
    seconds = time.monotonic() - started
    result = {"stage": name, "at": job.now().isoformat(), "seconds": round(seconds, 3), **document}
    records.write_result(job.result_path(name), result)
    if name == decide.__name__:
        report.write(job)
    print(f"  {name:<9} {seconds:6.1f} s  {stage_line(name, result)}", file=out, flush=True)


def _count_start(job: Job, name: str) -> None:
    """Counts a start of a stage; raises InputError for one that was killed too often."""
    starts = [
        entry
        for entry in records.audit_entries(job.root.audit)
        if entry["act"] == STARTED and (entry["cycle"], entry["stage"]) == (job.id, name)
    ]
    retried = records.last_entry(job.root.audit, "retried", cycle=job.id)
    since = [entry for entry in starts if not retried or entry["at"] >= retried["at"]]
    most = job.settings.attempts
    if len(since) >= most:
        raise InputError(
            f"stage '{name}' of cycle {job.id}",
            received=f"{len(since)} starts that did not come to their end",
            expected=f"an end within {most}, as config.attempts says",
            action="See what kills it (memory? time limits?), then run `pipeline.retrain reconcile --retry`.",
        )
    records.add_entry(job.root.audit, STARTED, at=job.now(), cycle=job.id, stage=name)


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
    # Before the end is written: two notifications are better than none.
    notify.send_of_cycle(
        job, {"event": "decision", "decision": decision, "version": version, "reasons": reasons}
    )
    end = records.write_end(job.folder, decision, at=job.now(), version=version, reasons=reasons)
    report.write(job)
    return end
