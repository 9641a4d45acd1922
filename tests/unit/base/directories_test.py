"""A directory is staged, described and renamed; what differs from its manifest is named."""

import json
import os
import pathlib

import pytest

from pipeline.base import directories
from pipeline.base.directories import ChangedError


def publish(path):
    """A directory of two files and a manifest."""
    with directories.staged(path.with_name(".staging")) as folder:
        (folder / "inner").mkdir()
        (folder / "inner" / "b").write_bytes(b"bb")
        (folder / "a").write_bytes(b"a")
        directories.commit(folder, "manifest.json", json.dumps(directories.listed(folder)).encode())
        directories.rename(folder, path)
    return json.loads((path / "manifest.json").read_bytes())


def test_what_was_published_is_what_the_manifest_lists(tmp_path):
    files = publish(tmp_path / "whole")
    assert {name: said["bytes"] for name, said in files.items()} == {"a": 1, "inner/b": 2}
    directories.check(tmp_path / "whole", files)
    assert [path.name for path in tmp_path.iterdir()] == ["whole"]


def test_a_failure_leaves_nothing_and_a_kill_only_what_goes_first(tmp_path):
    (tmp_path / ".staging" / "left").mkdir(parents=True)  # by a kill
    with pytest.raises(OSError), directories.staged(tmp_path / ".staging") as folder:
        assert list(folder.iterdir()) == []
        raise OSError
    assert list(tmp_path.iterdir()) == []


def test_a_directory_that_holds_files_is_never_replaced(tmp_path):
    publish(tmp_path / "whole")
    with pytest.raises(OSError, match="not empty"):
        publish(tmp_path / "whole")


def test_the_manifest_is_synchronised_behind_all_that_it_vouches_for(tmp_path, monkeypatch):
    names, fsync = [], os.fsync

    def told(file: int) -> None:
        names.append(pathlib.Path(f"/proc/self/fd/{file}").readlink().name)
        fsync(file)

    monkeypatch.setattr(os, "fsync", told)
    publish(tmp_path / "whole")
    assert {"a", "b", "inner"} == {*names[:3]}
    assert names[3:] == [".staging", "manifest.json.tmp", ".staging", tmp_path.name]


@pytest.mark.parametrize(
    ("change", "received"),
    [
        (lambda path: path.write_bytes(b"c"), "SHA-256 2e7d2c03a950…"),
        (lambda path: path.write_bytes(b"aa"), "2 bytes in place of 1 bytes"),
        (lambda path: path.unlink(), "no such file in place of SHA-256 ca978112ca1b…"),
    ],
)
def test_a_file_that_was_changed_is_named(tmp_path, change, received):
    files = publish(tmp_path / "whole")
    change(tmp_path / "whole" / "a")
    with pytest.raises(ChangedError, match=f"a: {received}"):
        directories.check(tmp_path / "whole", files)
