"""Pages of files come and go."""

import mmap
import pathlib
import subprocess

import pytest

from pipeline.feed import measure

BYTES = 3 << 20


@pytest.fixture
def path(tmp_path: pathlib.Path) -> str:
    kind = subprocess.run(["stat", "-f", "-c", "%T", tmp_path], capture_output=True, text=True, check=True)
    if kind.stdout.strip() in ("tmpfs", "overlayfs"):
        pytest.skip("files in memory cannot be evicted")
    file = tmp_path / "data"
    file.write_bytes(bytes(BYTES))
    return str(file)


def test_what_is_read_stays_until_it_is_evicted(path):
    pathlib.Path(path).read_bytes()
    assert measure.residency([path]) == measure.Residency(bytes=BYTES, resident=1.0)
    measure.evict([path])
    assert measure.residency([path]).resident == 0.0


def test_what_is_mapped_is_evicted_and_read_again(path):
    with pathlib.Path(path).open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as view:
        assert sum(view[:: mmap.PAGESIZE]) == 0
        measure.evict([path])
        assert measure.residency([path]).resident == 0.0
        assert view[BYTES - 1] == 0
        assert measure.residency([path]).resident > 0.0


def test_a_share_is_of_the_bytes_of_all_files(path, tmp_path):
    other = tmp_path / "other"
    other.write_bytes(bytes(3 * BYTES))
    measure.evict([path])
    assert measure.residency([path, str(other)]).resident == 0.75


def test_files_that_are_elsewhere_are_no_error():
    assert measure.residency(["gs://bucket/data-00000"]) is None


def test_where_the_kernel_would_not_say_nothing_is_told(path, monkeypatch):
    monkeypatch.setattr(measure.os, "access", lambda path, mode: False)
    assert measure.residency([path]) == measure.Residency(bytes=BYTES, resident=None)


def test_an_empty_file_has_no_pages(tmp_path):
    (tmp_path / "empty").touch()
    assert measure.residency([str(tmp_path / "empty")]).bytes == 0
