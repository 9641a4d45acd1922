"""A dataset that changes after it was opened is noticed, by the file."""

import errno
import os
import pathlib
import shutil
from collections.abc import Callable

import pytest

from pipeline.base import files
from pipeline.base.errors import InputError, TryAgainError
from pipeline.data.dataset import manifest
from pipeline.data.dataset.manifest import open_dataset
from pipeline.data.dataset.selection import select
from pipeline.data.dataset.window import open_window
from pipeline.data.integrity.changes import Watched
from tests.shared.tiny_dataset import write_dataset
from tests.unit.data.reading.id_stream import SCHEMA, write

SHARD, INDEX = "ids-train.tfrecord-00001-of-00002", "ids-train-00001-of-00002.index"


@pytest.fixture
def directory(tmp_path: pathlib.Path) -> pathlib.Path:
    return write(tmp_path / "ids", range(200)).directory


def watched(directory: pathlib.Path) -> Watched:
    return Watched([select(open_dataset(directory), "train[50%:]")])


def truncated(path: pathlib.Path) -> None:
    os.truncate(path, path.stat().st_size - 1)


def overwritten(path: pathlib.Path) -> None:
    """In place, with as many bytes, and the old time put back."""
    times = path.stat()
    with path.open("r+b") as file:
        file.write(b"other")
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))


def replaced(path: pathlib.Path) -> None:
    """By another file of the same size."""
    other = path.with_name("other")
    other.write_bytes(path.read_bytes()[::-1])
    other.replace(path)


def deleted(path: pathlib.Path) -> None:
    path.unlink()


def piped(path: pathlib.Path) -> None:
    """A pipe, which nobody writes to, stands there: opening it would wait for ever."""
    path.unlink()
    os.mkfifo(path)


def endless(path: pathlib.Path) -> None:
    path.unlink()
    path.symlink_to("/dev/zero")


@pytest.mark.parametrize("name", [SHARD, INDEX])
@pytest.mark.parametrize("change", [truncated, overwritten, replaced, deleted, piped, endless])
def test_each_kind_of_change_is_named(directory, name: str, change: Callable[[pathlib.Path], None]):
    watch = watched(directory)
    watch.check()
    change(directory / name)
    with pytest.raises(InputError, match=rf"dataset file \S+/{name}: received .*never changes after publi"):
        watch.check()


def test_another_manifest_is_named(directory, tmp_path):
    watch = watched(directory)
    other = write_dataset(tmp_path / "other", SCHEMA, {"train": [{"id": 1, "y": 1}]}, shards=1)
    shutil.copy(other.directory / manifest.FILE_NAME, directory / manifest.FILE_NAME)
    with pytest.raises(InputError, match=r"manifest\.json: received"):
        watch.check()


def test_what_is_not_read_may_change(directory):
    watch = Watched([select(open_dataset(directory), "train")])
    (directory / "notes.txt").write_text("published on Monday")
    watch.check()


@pytest.mark.parametrize("name", [SHARD, INDEX, manifest.FILE_NAME])
def test_a_file_that_is_touched_or_restored_is_still_the_one_that_was_published(directory, name: str):
    watch = watched(directory)
    os.utime(directory / name, ns=(1, 1))
    watch.check()
    content = (directory / name).read_bytes()
    (directory / name).unlink()
    (directory / name).write_bytes(content)
    watch.check()


def test_every_member_of_a_window_is_watched(directory, tmp_path):
    second = write_dataset(tmp_path / "second", SCHEMA, {"train": [{"id": 1, "y": 1}] * 9}, shards=1)
    watch = Watched([select(open_window([directory, second.directory]), "train")])
    watch.check()
    deleted(second.directory / manifest.FILE_NAME)
    with pytest.raises(InputError, match=r"second/manifest\.json: received no such file"):
        watch.check()


@pytest.mark.parametrize("fails", [1, 99])
def test_a_disk_that_does_not_answer_is_no_change(directory, monkeypatch, fails: int):
    """It is asked again; where it never answers, the same command may be run again."""
    watch, left, state_of = watched(directory), [fails], files.file_state
    monkeypatch.setattr(files, "RETRY_WAITS_S", (0.0, 0.0))

    def unsteady(path: str) -> object:
        if path.endswith(SHARD) and left[0]:
            left[0] -= 1
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return state_of(path)

    monkeypatch.setattr(files, "file_state", unsteady)
    if fails == 1:
        watch.check()
        return
    with pytest.raises(TryAgainError, match=rf"{SHARD}: received Input/output error, after 3 tries"):
        watch.check()
