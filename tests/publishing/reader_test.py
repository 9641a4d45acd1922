"""The reader of `make publishing-check` tells what is wrong from what went away under it."""

import pytest

from pipeline.base import documents
from pipeline.publishing import publish, versions
from tests.publishing.reader import Reader
from tests.shared import plain_export


@pytest.fixture
def serving(tmp_path):
    """One version, which was verified."""
    publish.publish(plain_export.write(tmp_path / "export"), tmp_path / "serving", cycle="c1", at="now")
    (tmp_path / "verified").mkdir()
    files = versions.published(tmp_path / "serving", 1)["files"]
    (tmp_path / "verified" / documents.digest(files)).touch()
    return tmp_path / "serving"


@pytest.fixture
def reader(serving, tmp_path) -> Reader:
    return Reader(serving, tmp_path / "verified", loads=False)


def test_a_version_that_is_whole_and_verified_is_read(reader: Reader):
    assert [reader.look(), reader.look()] == [1, None]
    assert (reader.counts["reads"], reader.faults) == (2, [])


def test_half_a_version_is_told(reader: Reader, serving):
    (serving / "2").mkdir()
    assert reader.look() is None
    assert "publication.json" in reader.faults[0]


def test_a_version_that_nobody_verified_is_told(reader: Reader, tmp_path):
    for path in (tmp_path / "verified").iterdir():
        path.unlink()
    reader.look()
    assert reader.faults == ["version 1: never verified"]


def test_a_version_that_goes_while_it_is_read_is_no_fault(reader: Reader, serving, monkeypatch):
    monkeypatch.setattr(versions, "check", _going(serving))
    assert reader.look() is None
    assert (reader.counts["gone while read"], reader.faults) == (1, [])


def _going(serving):
    real = versions.check

    def check(directory, version):
        (serving / "1").rename(serving / ".collected-1")
        return real(directory, version)

    return check
