"""Time that passes when a test lets it, and a bucket that tells what is asked of it."""

import threading
from collections.abc import Callable

import pytest

from pipeline.publishing.remote import follow as follow_lib
from tests.shared.memory_bucket import MemoryBucket

URL = "gs://bucket/models/taxi"


class TestTime:
    """Stands still, but while somebody waits: then `meanwhile` is called. No heart beats by itself."""

    __test__ = False

    def __init__(self) -> None:
        self.seconds = 0.0
        self.meanwhile: Callable[[], None] = lambda: None

    def now(self) -> float:
        return self.seconds

    def wait(self, seconds: float) -> None:
        self.seconds += seconds
        self.meanwhile()

    def wait_for(self, event: threading.Event, seconds: float) -> bool:
        return event.wait()


@pytest.fixture
def time() -> TestTime:
    return TestTime()


@pytest.fixture
def bucket() -> MemoryBucket:
    return MemoryBucket()


@pytest.fixture
def follow(serving, time):
    """Brings a bucket to the versions of `serving`."""

    def follow(bucket: MemoryBucket, directory=serving, **more: object) -> follow_lib.Differences:
        return follow_lib.follow(bucket, directory, **{"url": URL, "time": time, **more})

    return follow


def names(bucket: MemoryBucket) -> set[str]:
    """Of all objects but the lease."""
    return {stored.name for stored in bucket.list()} - {".lease"}
