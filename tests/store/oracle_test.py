"""What `make store-check` looks for is found."""

import importlib.util

import pytest

from pipeline.publishing import publish
from pipeline.publishing.remote import follow
from pipeline.publishing.remote.cloud_storage import GoogleBucket
from tests.shared import plain_export
from tests.store import emulator, oracle

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("gcp_storage_emulator") is None, reason="needs requirements/gcp.txt"
)


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with (
        emulator.running(tmp_path_factory.mktemp("emulator")) as url,
        pytest.MonkeyPatch.context() as patched,
    ):
        patched.setenv("STORAGE_EMULATOR_HOST", url)
        yield


@pytest.fixture
def place(server, tmp_path):
    """A bucket below `oracle/`, and the serving directory whose one version it has."""
    oracle.clear()
    serving = tmp_path / "serving"
    publish.publish(plain_export.write(tmp_path / "export"), serving, cycle="c1", at="now")
    bucket = GoogleBucket(emulator.BUCKET, "oracle")
    follow.follow(bucket, serving, url="gs://oracle")
    assert oracle.faults("oracle") == oracle.unlike("oracle", serving) == []
    return bucket, serving


def test_a_version_that_lacks_a_file_is_found(place):
    bucket, serving = place
    bucket.delete(bucket.find("1/export.json"))
    assert oracle.faults("oracle") == ["version 1 can be loaded, and lacks export.json"]
    assert oracle.unlike("oracle", serving) == ["1/export.json"]


def test_other_bytes_are_found(place):
    bucket, serving = place
    bucket.write("1/saved_model.pb", b"x", generation=bucket.find("1/saved_model.pb").generation)
    assert oracle.faults("oracle") == ["version 1: saved_model.pb has other bytes than were published"]
    assert oracle.unlike("oracle", serving) == ["1/saved_model.pb"]


def test_a_graph_alone_is_found(place):
    bucket, _ = place
    bucket.write("2/saved_model.pb", b"x", generation=0)
    assert oracle.faults("oracle") == ["version 2 can be loaded, and has no publication.json"]
