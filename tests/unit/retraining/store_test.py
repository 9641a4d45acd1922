"""The store of config.publish_to follows every act on the served versions."""

import json

import pytest

from pipeline.base.errors import InputError, TryAgainError
from pipeline.publishing import publish as publish_lib
from pipeline.publishing.remote import stored
from pipeline.publishing.remote.cloud_storage import Place
from pipeline.report import terminal
from pipeline.retraining import decision, operations, records, status, store
from pipeline.retraining.job import Job
from tests.shared.memory_bucket import MemoryBucket

URL = "gs://bucket/models/trips"


@pytest.fixture
def bucket():
    return MemoryBucket()


@pytest.fixture
def followed(schedule, bucket):
    """A root whose store is empty yet, though version 1 is served."""
    schedule.store = Place(url=URL, open=lambda: bucket)
    return schedule


def served(bucket):
    return [number for number, found in sorted(stored.look(bucket).versions.items()) if found.is_loadable]


def told(schedule):
    known = status.survey(schedule.root, schedule.settings, now=schedule.now)
    return terminal.render(status.status(known, now=schedule.now)).splitlines()[1:]


def publish_another(schedule):
    """Version 2, with the bytes of version 1."""
    export = schedule.cycles[0].folder / "export"
    return publish_lib.publish(export, schedule.root.serving, cycle="other", at=schedule.now.isoformat())


def test_reconcile_brings_a_store_that_lacks_the_newest_version_to_it(followed, bucket):
    assert told(followed)[1:3] == [
        f"store {URL}: nothing is served",
        "  it lacks version 1; `reconcile` publishes it",
    ]
    assert followed.reconcile().did == "nothing"
    assert served(bucket) == [1]
    assert told(followed)[1:3] == [f"store {URL}: version 1 is served", ""]
    entry = records.last_entry(followed.root.audit, "store")
    assert (entry["place"], entry["publishes"], entry["removes"]) == (URL, [1], [])
    before = records.audit_entries(followed.root.audit)
    followed.reconcile()
    assert records.audit_entries(followed.root.audit) == before


def test_on_hold_the_store_still_gets_what_is_served(followed, bucket):
    records.put_hold(followed.root, reason="holiday", by="a person", at=followed.now)
    assert followed.reconcile().did == "held"
    assert served(bucket) == [1]


def test_rollback_and_gc_reach_the_store(followed, bucket):
    publish_another(followed)
    followed.reconcile()
    assert served(bucket) == [1, 2]
    operations.rollback(followed.path, followed.settings, to=1, reason="worse", clock=lambda: followed.now)
    assert served(bucket) == followed.versions == [1, 3]
    followed.config.keep.versions = 1
    followed.config.gate_anchor = 3
    operations.gc(followed.path, followed.settings, clock=lambda: followed.now)
    assert served(bucket) == followed.versions == [3]


@pytest.mark.slow
def test_what_a_cycle_publishes_and_takes_back_reaches_the_store(followed, bucket, monkeypatch):
    cycle = followed.cycles[0]
    job = Job(
        root=followed.root, settings=followed.settings, id=cycle.id, plan=cycle.plan, now=lambda: followed.now
    )
    assert decision.put_version(job, promoted_by="") == 1
    assert served(bucket) == [1]
    monkeypatch.setattr(decision, "_failures", lambda job, version: ["it answers NaN"])
    assert not decision.verify_version(job, 1)["passed"]
    assert served(bucket) == followed.versions == []


def test_a_store_with_versions_of_somebody_else_stops_a_cycle_before_it_begins(followed, bucket):
    bucket.write("7/saved_model.pb", b"graph", generation=0)
    followed.add(3)
    with pytest.raises(InputError, match=r"version 7 of gs://bucket/models/trips.*never published"):
        followed.reconcile()
    assert len(followed.cycles) == 1
    assert "  version 7 there was never published here: nothing is written to it" in told(followed)


def test_status_tells_of_a_store_that_does_not_answer(followed):
    def away():
        raise TryAgainError(URL, received="no answer", expected="one", action="Wait.")

    followed.store = Place(url=URL, open=away)
    assert told(followed)[1].startswith(f"store {URL}: it cannot be looked at: {URL}: received no answer")
    assert json.dumps(store.describe(followed.root, followed.settings))
