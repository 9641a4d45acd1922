"""Operations of a person: promote, rollback, hold, release, clock, gc. Each is recorded in the log."""

import datetime
import pathlib

from pipeline.base.errors import InputError
from pipeline.publishing import publish as publish_lib
from pipeline.retraining import records, store
from pipeline.retraining.champion import GIVEN_UP, ROLLED_BACK
from pipeline.retraining.collection import collect
from pipeline.retraining.job import Job
from pipeline.retraining.reconcile import Clock
from pipeline.retraining.records import Ahead, Cycle, Root
from pipeline.retraining.settings import Settings


def promote(path: pathlib.Path, settings: Settings, *, cycle: str, reason: str, clock: Clock) -> int:
    """Publishes a cycle that the gate did not promote; returns the version. If `cycle` is empty, it is the
    newest.

    A failed infra check is run again: other work on the machine may have slowed the model.

    Raises:
      InputError: there is no such cycle, its export is gone, it failed the parity check, it fails the infra
        check again, or the version did not serve and was taken back.
    """
    # Imported here, because the stages import TensorFlow, which takes seconds.
    from pipeline.base import tensorflow_start  # noqa: F401 - before TensorFlow

    # isort: split
    from pipeline.retraining.decision import put_version, verify_version

    with records.open_root(path, name=settings.name) as opened:
        found = _promotable(opened, cycle)
        job = Job(root=opened, settings=settings, id=found.id, plan=found.plan, now=clock)
        if not job.result("infra")["passed"]:
            _check_again(job)
        records.add_entry(opened.audit, "promoted", at=clock(), cycle=found.id, reason=reason)
        version = put_version(job, promoted_by=reason)
        result = verify_version(job, version)
        if not result["passed"]:
            raise InputError(
                f"version {version}",
                received="; ".join(result["reasons"]),
                expected="a version that serves as recorded",
                action="It was taken back; what was served before is served again.",
            )
        return version


def _promotable(opened: Root, prefix: str) -> Cycle:
    """Returns the one cycle with that prefix; the newest for an empty one. Raises InputError."""
    cycles = records.cycle_history(opened)
    if not cycles:
        raise _no_such(prefix, "none yet")
    found = [cycle for cycle in cycles if cycle.id.startswith(prefix)]
    if len(found) != 1 and prefix:
        raise _no_such(prefix, ", ".join(cycle.id for cycle in cycles[-5:]))
    cycle = found[-1]
    if cycle.end is None or not (cycle.folder / "export").is_dir():
        raise InputError(
            f"cycle {cycle.id}",
            received="one that has not ended" if cycle.end is None else "one whose export is gone",
            expected="a cycle that has ended and still has its export",
            action="Run reconcile; config.keep.cycles says how many keep their export.",
        )
    said = {
        stage: records.read_result(cycle.folder / f"{stage}.json") for stage in ("parity", "infra", "decide")
    }
    if missing := [stage for stage, each in said.items() if each is None]:
        raise InputError(
            f"cycle {cycle.id}",
            received=f"{cycle.decision}: it ended before stage '{missing[0]}'",
            expected="a cycle that came to a decision",
            action="`pipeline.retrain status` lists them.",
        )
    if not said["parity"]["passed"]:
        raise _unfit(cycle.id, f"a failed parity check: {said['parity']['reasons'][0]}")
    return cycle


def _check_again(job: Job) -> None:
    """Runs the infra check of a cycle anew and keeps the result; raises InputError if it fails again."""
    from pipeline.retraining.cycle import STAGES, timed

    result = timed(job, "infra", STAGES["infra"])
    job.log("checked again", passed=result["passed"])
    if not result["passed"]:
        raise _unfit(job.id, f"an infra check that failed again: {result['reasons'][0]}")
    records.write_result(job.result_path("infra"), result, anew=True)


def _unfit(cycle: str, received: str) -> InputError:
    return InputError(
        f"cycle {cycle}",
        received=received,
        expected="a model that decides and serves as it was trained",
        action="Nobody can promote this one. Correct the cause; the next cycle that is due trains again.",
    )


def _no_such(prefix: str, there: str) -> InputError:
    return InputError(
        f"--cycle={prefix}",
        received="no cycle, or more than one, of that name",
        expected=f"the id of a cycle, or its beginning: {there}",
        action="`pipeline.retrain status` lists them.",
    )


def rollback(path: pathlib.Path, settings: Settings, *, to: int, reason: str, clock: Clock) -> int:
    """Publishes the bytes of version `to` again, under a higher number, which is returned.

    The cycles published since then are quarantined, and never published again. If no version is sound, `to`
    may be 0: then nothing is served, and the next cycle makes a first model.
    """
    with records.open_root(path, name=settings.name) as opened:
        at = clock()
        if not to:
            gone = publish_lib.give_up(opened.serving, at=at.isoformat())
            records.add_entry(opened.audit, GIVEN_UP, at=at, versions=gone, reason=reason)
            store.follow(opened, settings, at=at)
            return 0
        version = publish_lib.rollback(opened.serving, to=to, reason=reason, at=at.isoformat())
        records.add_entry_once(opened.audit, ROLLED_BACK, at=at, version=version, to=to, reason=reason)
        store.follow(opened, settings, at=at)
        return version


def put_on_hold(path: pathlib.Path, settings: Settings, *, reason: str, at: datetime.datetime) -> None:
    """Holds retraining, without the lock: a running cycle stops before it publishes."""
    records.put_hold(records.existing_root(path, name=settings.name), reason=reason, by="a person", at=at)


def release(path: pathlib.Path, settings: Settings, *, reason: str, clock: Clock) -> dict:
    """Releases the hold; returns its reason."""
    with records.open_root(path, name=settings.name) as opened:
        return records.release_hold(opened, reason=reason, at=clock())


def accept_clock(path: pathlib.Path, settings: Settings, *, reason: str, clock: Clock) -> Ahead:
    """Makes records with a time ahead of the clock count as made now; returns them."""
    with records.open_root(path, name=settings.name) as opened:
        return records.accept_clock(opened, reason=reason, at=clock())


def gc(path: pathlib.Path, settings: Settings, *, clock: Clock) -> dict:
    """Collects garbage; returns what was removed. See collect."""
    with records.open_root(path, name=settings.name) as opened:
        running = [cycle.id for cycle in records.cycle_history(opened) if not cycle.end and not cycle.failure]
        gone = collect(opened, settings, running=running[0] if running else "")
        if any(gone.values()):
            records.add_entry(opened.audit, "collected", at=clock(), **gone)
        store.follow(opened, settings, at=clock())
        return gone
