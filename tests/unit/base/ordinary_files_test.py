"""A file is read whole; what has no end is not read."""

import os
import pathlib

import pytest

from pipeline.base import files


def test_a_file_is_read_whole(tmp_path: pathlib.Path):
    (tmp_path / "file").write_bytes(b"content")
    (tmp_path / "link").symlink_to("file")
    assert files.read_bytes(tmp_path / "link") == b"content"


def test_pipes_and_devices_are_not_read(tmp_path: pathlib.Path):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "device").symlink_to("/dev/zero")
    for name in ("pipe", "device"):
        with pytest.raises(files.NotOrdinaryError, match="not an ordinary file"):
            files.read_bytes(tmp_path / name)


def test_directories_and_what_is_missing_are_told_as_by_opening_them(tmp_path: pathlib.Path):
    with pytest.raises(IsADirectoryError):
        files.read_bytes(tmp_path)
    with pytest.raises(FileNotFoundError):
        files.read_bytes(tmp_path / "nothing")


def test_a_file_that_says_no_size_is_read_to_its_end(tmp_path: pathlib.Path):
    with pathlib.Path("/proc/self/status").open("rb") as file:
        start = file.readline()
    content = files.read_bytes("/proc/self/status")
    assert content.startswith(start)
    assert content.endswith(b"\n")
    (tmp_path / "empty").touch()
    assert files.read_bytes(tmp_path / "empty") == b""


def test_a_file_that_one_read_may_not_give_is_read_whole(tmp_path: pathlib.Path, monkeypatch):
    monkeypatch.setattr(files, "_AT_ONCE_BYTES", 7)
    (tmp_path / "file").write_bytes(b"content")
    content, status = files.read(tmp_path / "file")
    assert content == b"content"
    assert status.st_size == 7


def test_files_are_opened_ahead_and_in_order(tmp_path, monkeypatch):
    paths = [str(tmp_path / str(number)) for number in range(40)]
    for path in paths:
        pathlib.Path(path).write_text(path)
    advised = []
    monkeypatch.setattr(os, "posix_fadvise", lambda file, *told: advised.append(file), raising=False)
    before = len(list(pathlib.Path("/proc/self/fd").iterdir()))
    read = [files.read_open(file, "a file")[0].decode() for file in files.opened_ahead(paths)]
    assert read == paths
    assert len(advised) == len(paths)
    assert len(set(advised)) == 16
    pathlib.Path(paths[20]).unlink()
    with pytest.raises(FileNotFoundError) as raised:
        list(files.opened_ahead(paths))
    assert raised.value.filename == paths[20]
    assert len(list(pathlib.Path("/proc/self/fd").iterdir())) == before
