"""A bucket in memory, and what brings it to a serving directory."""

import pytest

from pipeline.publishing.remote import follow as follow_lib
from tests.shared.memory_bucket import MemoryBucket

URL = "gs://bucket/models/taxi"


@pytest.fixture
def bucket() -> MemoryBucket:
    return MemoryBucket()


@pytest.fixture
def follow(serving):
    """Brings a bucket to the versions of `serving`."""

    def follow(bucket: MemoryBucket, directory=serving, **more: object) -> follow_lib.Differences:
        return follow_lib.follow(bucket, directory, **{"url": URL, **more})

    return follow


def names(bucket: MemoryBucket) -> set[str]:
    return {stored.name for stored in bucket.list()}
