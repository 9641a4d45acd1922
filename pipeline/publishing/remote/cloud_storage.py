"""A bucket of Google Cloud Storage, through google-cloud-storage, which requirements/gcp.txt has.

With STORAGE_EMULATOR_HOST set, the library asks that server, without credentials.
"""

import contextlib
import dataclasses
import functools
import pathlib
import re
from collections.abc import Callable, Iterator, Mapping

from pipeline.base.errors import InputError, TryAgainError
from pipeline.publishing.remote.bucket import ABSENT, Bucket, RefusedError, Stored

# https://cloud.google.com/storage/docs/buckets#naming; names with dots are domains, and may be as long.
_BUCKET = "[a-z0-9][a-z0-9._-]{1,220}[a-z0-9]"
_FOLDER = r"(?!\.{1,2}(?:/|$))[^/\s#?*\[\]]+"
_URL = re.compile(f"gs://({_BUCKET})/({_FOLDER}(?:/{_FOLDER})*)/?")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Place:
    """A folder of a bucket. `open` connects; `url` is TensorFlow Serving's model_base_path."""

    url: str
    open: Callable[[], Bucket]


def parse(url: str) -> Place | None:
    """Parses config.publish_to; returns None where it is empty.

    Raises:
      InputError: it is not a URL of the expected form, or the library for it is not installed.
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
    check_installed(url)
    bucket, prefix = found.groups()
    return Place(url=f"gs://{bucket}/{prefix}", open=functools.partial(GoogleBucket, bucket, prefix))


def check_installed(url: str) -> None:
    """Raises InputError where the library is missing."""
    try:
        from google.cloud import storage  # noqa: F401
    except ImportError:
        raise InputError(
            f"config.publish_to = {url!r}",
            received="a Python environment without google-cloud-storage",
            expected="the library of Google's object store",
            action="Install it: pip install -r requirements/gcp.txt, or 'penstock[gcp]'.",
        ) from None


class GoogleBucket:
    """A Bucket below gs://BUCKET/PREFIX/."""

    def __init__(self, bucket: str, prefix: str) -> None:
        from google.cloud import storage

        self._place = f"gs://{bucket}/{prefix}"
        self._prefix = f"{prefix}/" if prefix else ""
        with _translate_errors(self._place):
            self._bucket = storage.Client().bucket(bucket)

    def list(self, prefix: str = "") -> list[Stored]:
        try:
            with _translate_errors(self._place):
                blobs = self._bucket.client.list_blobs(self._bucket, prefix=f"{self._prefix}{prefix}")
                return [self._stored(blob) for blob in blobs]
        except RefusedError:
            raise _not_ours(self._place, "no such bucket") from None

    def find(self, name: str) -> Stored | None:
        with _translate_errors(self._place):
            blob = self._bucket.get_blob(f"{self._prefix}{name}")
            return blob and self._stored(blob)

    def read(self, stored: Stored) -> bytes:
        with _translate_errors(self._place):
            blob = self._bucket.blob(f"{self._prefix}{stored.name}")
            return blob.download_as_bytes(if_generation_match=stored.generation, checksum="crc32c")

    def write(
        self,
        name: str,
        content: bytes | pathlib.Path,
        *,
        generation: int,
        metadata: Mapping[str, str] = {},
    ) -> Stored:
        blob = self._bucket.blob(f"{self._prefix}{name}")
        blob.metadata = dict(metadata) or None
        # The library compares its own checksum of what it sent with the store's.
        more = {"if_generation_match": generation, "checksum": "crc32c"}
        with _translate_errors(self._place):
            if isinstance(content, bytes):
                blob.upload_from_string(content, content_type="application/octet-stream", **more)
            else:
                blob.upload_from_filename(str(content), content_type="application/octet-stream", **more)
        return self._stored(blob)

    def copy(self, source: Stored, target: str) -> Stored:
        blob = self._bucket.blob(f"{self._prefix}{target}")
        original = self._bucket.blob(f"{self._prefix}{source.name}")
        with _translate_errors(self._place):
            token, is_first = None, True
            while token or is_first:  # ends after one call, unless the store takes several for a large object
                token, *_ = blob.rewrite(
                    original,
                    token=token,
                    if_generation_match=ABSENT,
                    if_source_generation_match=source.generation,
                )
                is_first = False
        return self._stored(blob)

    def delete(self, stored: Stored) -> None:
        from google.api_core import exceptions

        with _translate_errors(self._place), contextlib.suppress(exceptions.NotFound):
            self._bucket.blob(f"{self._prefix}{stored.name}").delete(if_generation_match=stored.generation)

    def _stored(self, blob: object) -> Stored:
        return Stored(
            name=blob.name.removeprefix(self._prefix),
            generation=int(blob.generation),
            size=int(blob.size),
            crc32c=blob.crc32c,
            metadata=dict(blob.metadata or {}),
        )


@contextlib.contextmanager
def _translate_errors(place: str) -> Iterator[None]:
    """Raises the library's errors as ours. Where retries help, the library has already made them."""
    from google.api_core import exceptions
    from google.auth import exceptions as auth
    from google.cloud.storage import exceptions as transfer

    away = (
        exceptions.TooManyRequests,
        exceptions.ServerError,
        exceptions.RetryError,
        auth.TransportError,
        transfer.DataCorruption,
        transfer.InvalidResponse,
        OSError,  # errors of the connection
    )
    try:
        yield
    except (exceptions.PreconditionFailed, exceptions.NotFound) as error:
        raise RefusedError(str(error)) from None
    except away as error:
        raise _away(place, error) from None
    except (exceptions.GoogleAPIError, auth.GoogleAuthError) as error:
        raise _not_ours(place, str(error)) from None


def _not_ours(place: str, received: str) -> InputError:
    return InputError(
        place,
        received=received,
        expected="a bucket whose objects this account may list, read, create and delete",
        action="Correct config.publish_to, or the account's role (roles/storage.objectUser).",
    )


def _away(place: str, error: Exception) -> TryAgainError:
    return TryAgainError(
        place,
        received=f"no answer ({type(error).__name__}: {error})",
        expected="an object store that answers",
        action="The same command goes on once it does.",
    )
