"""A file is read whole; what has no end is not read."""

import os
import pathlib

import pytest

from pipeline.data import ordinary_files


def test_a_file_is_read_whole(tmp_path: pathlib.Path):
    (tmp_path / "file").write_bytes(b"content")
    (tmp_path / "link").symlink_to("file")
    assert ordinary_files.read_bytes(tmp_path / "link") == b"content"


def test_pipes_and_devices_are_not_read(tmp_path: pathlib.Path):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "device").symlink_to("/dev/zero")
    for name in ("pipe", "device"):
        with pytest.raises(ordinary_files.NotOrdinaryError, match="not an ordinary file"):
            ordinary_files.read_bytes(tmp_path / name)


def test_directories_and_what_is_missing_are_told_as_by_opening_them(tmp_path: pathlib.Path):
    with pytest.raises(IsADirectoryError):
        ordinary_files.read_bytes(tmp_path)
    with pytest.raises(FileNotFoundError):
        ordinary_files.read_bytes(tmp_path / "nothing")


def test_a_file_that_says_no_size_is_read_to_its_end(tmp_path: pathlib.Path):
    with pathlib.Path("/proc/self/status").open("rb") as file:
        start = file.readline()
    content = ordinary_files.read_bytes("/proc/self/status")
    assert content.startswith(start)
    assert content.endswith(b"\n")
    (tmp_path / "empty").touch()
    assert ordinary_files.read_bytes(tmp_path / "empty") == b""
