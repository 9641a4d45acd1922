"""The bucket in memory and the emulator of Cloud Storage keep the same promises; what publish_to may say."""

import importlib.util
import itertools
import sys

import pytest

from pipeline.base.errors import InputError
from pipeline.publishing.remote import cloud_storage
from pipeline.publishing.remote.bucket import ABSENT, RefusedError, crc32c
from pipeline.publishing.remote.cloud_storage import GoogleBucket
from tests.shared import storage_emulator as emulator
from tests.shared.memory_bucket import MemoryBucket

_NEEDED = ("google.cloud.storage", "gcp_storage_emulator")


def _is_installed(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:
        return False


EMULATED = pytest.param(
    "emulator",
    marks=pytest.mark.skipif(not all(map(_is_installed, _NEEDED)), reason="needs requirements/gcp.txt"),
)


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with (
        emulator.running(tmp_path_factory.mktemp("emulator")) as url,
        pytest.MonkeyPatch.context() as patched,
    ):
        patched.setenv("STORAGE_EMULATOR_HOST", url)
        yield


_PREFIXES = itertools.count()


@pytest.fixture(params=["memory", EMULATED])
def bucket(request):
    if request.param == "memory":
        return MemoryBucket()
    request.getfixturevalue("server")
    return GoogleBucket(emulator.BUCKET, f"models/{next(_PREFIXES)}")


def test_what_is_written_is_listed_found_and_read(bucket, tmp_path):
    (tmp_path / "file").write_bytes(b"weights" * 1000)
    written = bucket.write("1/a b/ü", tmp_path / "file", generation=ABSENT, metadata={"token": "7"})
    assert (written.size, written.crc32c) == (7000, crc32c(b"weights" * 1000))
    assert bucket.list("1/") == bucket.list() == [written]
    assert bucket.list("2/") == []
    assert bucket.find("1/a b/ü") == written
    assert bucket.find("1/a") is None
    assert bucket.read(written) == b"weights" * 1000
    assert written.metadata == {"token": "7"}


def test_nothing_is_created_over_another_object(bucket):
    bucket.write("a", b"one", generation=ABSENT)
    with pytest.raises(RefusedError):
        bucket.write("a", b"two", generation=ABSENT)
    assert bucket.read(bucket.find("a")) == b"one"


def test_large_files_too_are_created_once(bucket, tmp_path):
    (tmp_path / "large").write_bytes(bytes(9 << 20))  # the library sends it in another way
    large = bucket.write("large", tmp_path / "large", generation=ABSENT)
    assert large.size == 9 << 20
    with pytest.raises(RefusedError):
        bucket.write("large", tmp_path / "large", generation=ABSENT)
    assert bucket.find("large") == large


def test_an_object_is_replaced_only_in_the_generation_that_was_seen(bucket):
    first = bucket.write("a", b"one", generation=ABSENT)
    second = bucket.write("a", b"", generation=first.generation, metadata={"by": "me"})
    assert second.generation != first.generation
    with pytest.raises(RefusedError):
        bucket.write("a", b"three", generation=first.generation)
    with pytest.raises(RefusedError):
        bucket.write("absent", b"", generation=first.generation)
    with pytest.raises(RefusedError):
        bucket.read(first)
    assert (bucket.read(second), bucket.find("a")) == (b"", second)


def test_a_copy_depends_on_both_ends(bucket):
    old = bucket.write("source", b"old", generation=ABSENT)
    new = bucket.write("source", b"new", generation=old.generation, metadata={"by": "me"})
    with pytest.raises(RefusedError):
        bucket.copy(old, "target")
    assert bucket.find("target") is None
    copied = bucket.copy(new, "target")
    assert (bucket.read(copied), copied.metadata) == (b"new", {"by": "me"})
    with pytest.raises(RefusedError):
        bucket.copy(new, "target")
    bucket.delete(new)
    with pytest.raises(RefusedError):
        bucket.copy(new, "elsewhere")
    assert bucket.list() == [copied]


def test_an_object_is_deleted_only_in_the_generation_that_was_seen(bucket):
    old = bucket.write("a", b"old", generation=ABSENT)
    new = bucket.write("a", b"new", generation=old.generation)
    with pytest.raises(RefusedError):
        bucket.delete(old)
    assert bucket.find("a") == new
    bucket.delete(new)
    bucket.delete(new)
    assert bucket.find("a") is None


def test_a_bucket_that_is_not_there_is_told(request):
    if not all(map(_is_installed, _NEEDED)):
        pytest.skip("needs requirements/gcp.txt")
    request.getfixturevalue("server")
    with pytest.raises(InputError, match=r"gs://no-such-bucket/models.*publish_to"):
        GoogleBucket("no-such-bucket", "models").list()


def test_an_empty_text_is_no_place():
    assert cloud_storage.parse("") is None


@pytest.mark.parametrize("url", ["gs://bucket/models/taxi", "gs://bucket/models/taxi/"])
def test_a_folder_of_a_bucket_is_a_place(url, monkeypatch):
    monkeypatch.setattr(cloud_storage, "check_installed", lambda url: None)
    assert cloud_storage.parse(url).url == "gs://bucket/models/taxi"


@pytest.mark.parametrize(
    "url",
    [
        *("s3://bucket/models/taxi", "/models/taxi", "gs://bucket", "gs://bucket/", "gs://bucket//taxi"),
        *("gs://bucket/../taxi", "gs://bucket/models/*", "gs://Bucket/models", "gs://bucket/models taxi"),
    ],
)
def test_no_other_place_is_taken(url):
    with pytest.raises(InputError, match=r"config\.publish_to: received .*; expected gs://BUCKET/FOLDER"):
        cloud_storage.parse(url)


def test_a_library_that_is_missing_is_told_at_once(monkeypatch):
    monkeypatch.setitem(sys.modules, "google.cloud.storage", None)
    with pytest.raises(InputError, match=r"publish_to.*pip install -r requirements/gcp\.txt"):
        cloud_storage.parse("gs://bucket/models/taxi")
