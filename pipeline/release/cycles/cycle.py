"""Runs a cycle, stage by stage: what has a receipt is done, what has none is done now."""

import time
from collections.abc import Callable, Mapping
from typing import TextIO

from pipeline.data.errors import InputError, TryAgainError
from pipeline.release.cycles import notify, store
from pipeline.release.cycles.records import audit, ended, receipts
from pipeline.release.cycles.records.ended import PROMOTE, TAKEN_BACK
from pipeline.release.cycles.stages.collect import collect
from pipeline.release.cycles.stages.data import data
from pipeline.release.cycles.stages.decide import decide
from pipeline.release.cycles.stages.evaluate import evaluate
from pipeline.release.cycles.stages.export import export
from pipeline.release.cycles.stages.held import HeldError
from pipeline.release.cycles.stages.infra import infra
from pipeline.release.cycles.stages.job import Job
from pipeline.release.cycles.stages.parity import parity
from pipeline.release.cycles.stages.publish import publish, verify
from pipeline.release.cycles.stages.train import train
from pipeline.release.cycles.told import lines, report

STARTED, FAILED = "started", "failed"


def gc(job: Job) -> dict:
    """See collect."""
    gone = collect(job.root, job.settings, running=job.id)
    store.follow(job.root, job.settings, at=job.now())
    return gone


# In this order, behind PLAN, which is begin.py's. A stage's function is (job) → what its receipt says.
STAGES: Mapping[str, Callable[[Job], Mapping]] = {
    stage.__name__: stage
    for stage in (data, train, export, parity, evaluate, infra, decide, publish, verify, gc)
}


def run(job: Job, *, out: TextIO | None = None) -> dict:
    """Brings the cycle to its end, and returns how it ended.

    Raises:
      TryAgainError: something was in the way that may be gone later; the same cycle goes on then.
      HeldError: a person holds retraining.
      InputError: the cycle failed, and would fail again.
    """
    for name, stage in STAGES.items():
        if receipts.read(job.receipt_of(name)) is None:
            _run(job, name, stage, out)
    return _end(job)


def _run(job: Job, name: str, stage: Callable[[Job], Mapping], out: TextIO | None) -> None:
    began = time.monotonic()
    try:
        _count_start(job, name)
        document = stage(job)
    except (TryAgainError, HeldError):
        raise
    except InputError as error:
        _fail(job, name, error)
        raise
    seconds = time.monotonic() - began
    said = {"stage": name, "at": job.now().isoformat(), "seconds": round(seconds, 3), **document}
    receipts.write(job.receipt_of(name), said)
    if name == decide.__name__:
        report.write(job)
    print(f"  {name:<9} {seconds:6.1f} s  {lines.of_stage(name, said)}", file=out, flush=True)


def _count_start(job: Job, name: str) -> None:
    """Raises InputError for a stage that was started so often that something kills it each time."""
    starts = [
        entry
        for entry in audit.entries(job.root.audit)
        if entry["act"] == STARTED and (entry["cycle"], entry["stage"]) == (job.id, name)
    ]
    retried = audit.last(job.root.audit, "retried", cycle=job.id)
    since = [entry for entry in starts if not retried or entry["at"] >= retried["at"]]
    most = job.settings.config.attempts
    if len(since) >= most:
        raise InputError(
            f"stage '{name}' of cycle {job.id}",
            received=f"{len(since)} starts that did not come to their end",
            expected=f"an end within {most}, as config.attempts says",
            action="See what kills it (memory? time limits?), then run `pipeline.retrain reconcile --retry`.",
        )
    audit.add(job.root.audit, STARTED, at=job.now(), cycle=job.id, stage=name)


def _fail(job: Job, name: str, error: InputError) -> None:
    receipts.write(
        job.folder / ended.FAILED, {"stage": name, "at": job.now().isoformat(), "error": str(error)}
    )
    audit.add_once(job.root.audit, FAILED, at=job.now(), cycle=job.id, stage=name, error=str(error))
    report.write(job)
    notify.tell(job, {"event": "failure", "cycle": job.id, "stage": name, "error": str(error)})


def _end(job: Job) -> dict:
    """Writes how the cycle ended: the last receipt."""
    decided, verified = job.said("decide"), job.said("verify")
    taken_back = not verified["passed"]
    decision = TAKEN_BACK if taken_back else decided["decision"]
    version = None if taken_back else verified["version"]
    reasons = [*verified.get("reasons", ()), *decided["reasons"]]
    audit.add_once(
        job.root.audit,
        "decided",
        at=job.now(),
        cycle=job.id,
        decision=decision,
        why=reasons[:1],
        version=version,
    )
    # Before the receipt: a notification that is sent twice is better than none.
    notify.tell(
        job,
        {"event": "decision", "cycle": job.id, "decision": decision, "version": version, "reasons": reasons},
    )
    document = {
        "at": job.now().isoformat(),
        "decision": decision,
        "version": version,
        "promoted": decision == PROMOTE and version is not None,
        "reasons": reasons,
    }
    found = receipts.write(job.folder / ended.ENDED, document)
    report.write(job)
    return found
