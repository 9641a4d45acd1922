"""Gives the object store of config.publish_to the versions of ROOT/serving, after every operation."""

import datetime

from pipeline.base.errors import InputError
from pipeline.publishing.remote import follow as follow_lib
from pipeline.publishing.remote import stored
from pipeline.publishing.remote.stored import Differences
from pipeline.retraining import records
from pipeline.retraining.records import Root
from pipeline.retraining.settings import Settings

FOLLOWED = "store"


def follow(root: Root, settings: Settings, *, at: datetime.datetime) -> None:
    """Gives the store the versions of ROOT/serving; does nothing where config.publish_to is empty.

    An entry is added to the audit log before each change. So a call that is killed leaves one, and the call
    that finishes its work adds another.

    Raises:
      TryAgainError: another process writes there, or the store does not answer.
      InputError: it has versions that were never published here, or denies access.
    """
    place = settings.store
    if place is None:
        return

    def tell(found: Differences) -> None:
        if found.missing or found.removed:
            records.add_entry(
                root.audit, FOLLOWED, at=at, place=place.url, publishes=found.missing, removes=found.removed
            )

    follow_lib.follow(place.open(), root.serving, url=place.url, tell=tell)


def describe(root: Root, settings: Settings) -> dict | None:
    """Describes the store and its differences from ROOT/serving; None where config.publish_to is empty.

    The keys are `place`, `served` (a version or None), `missing` (versions that it lacks), `removed`
    (versions to remove), `foreign` (versions that were never published here) and `unfinished` (whether a
    process writes there, or was killed). If it cannot be read, the keys are `place` and `error`.
    """
    place = settings.store
    if place is None:
        return None
    try:
        there = stored.look(place.open())
    except InputError as error:
        return {"place": place.url, "error": str(error)}
    found = stored.differences(stored.local(root.serving), there)
    return {
        "place": place.url,
        "served": there.served,
        "missing": found.missing,
        "removed": found.removed,
        "foreign": found.foreign,
        "unfinished": found.unfinished,
    }
