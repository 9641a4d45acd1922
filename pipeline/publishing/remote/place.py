"""Where versions are published besides the serving directory: what config.publish_to says."""

import dataclasses
import functools
import re
from collections.abc import Callable

from pipeline.base.errors import InputError
from pipeline.publishing.remote import cloud_storage
from pipeline.publishing.remote.bucket import Bucket

# https://cloud.google.com/storage/docs/buckets#naming; names with dots are domains, and as long as those.
_BUCKET = "[a-z0-9][a-z0-9._-]{1,220}[a-z0-9]"
_FOLDER = r"(?!\.{1,2}(?:/|$))[^/\s#?*\[\]]+"
_URL = re.compile(f"gs://({_BUCKET})/({_FOLDER}(?:/{_FOLDER})*)/?")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Place:
    """`open` connects; `url` is what a TensorFlow Serving would be given as its model_base_path."""

    url: str
    open: Callable[[], Bucket]


def parse(url: str) -> Place | None:
    """None for an empty text.

    Raises:
      InputError: it is no place that can be published to, or the library for it is not installed.
    """
    if not url:
        return None
    found = _URL.fullmatch(url)
    if not found:
        raise InputError(
            "config.publish_to",
            received=repr(url),
            expected="gs://BUCKET/FOLDER, with a folder for this model alone: no other store is written to",
            action="Correct it, or leave it empty: versions are in ROOT/serving in any case.",
        )
    cloud_storage.check_installed(url)
    bucket, prefix = found.groups()
    return Place(
        url=f"gs://{bucket}/{prefix}", open=functools.partial(cloud_storage.GoogleBucket, bucket, prefix)
    )
