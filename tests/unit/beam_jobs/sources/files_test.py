"""Which files a location names: a file, a directory, a glob; and names that look like a glob."""

import os
import pathlib

import pytest

from beam_jobs.sources import files
from beam_jobs.sources.source import Input
from pipeline.base.errors import InputError


def named(location: pathlib.Path | str, *, deep: bool = False) -> list[str]:
    found = files.list_files(Input(location=str(location)), deep=deep)
    return [pathlib.PurePath(file.path).name for file in found]


@pytest.fixture
def directory(tmp_path: pathlib.Path) -> pathlib.Path:
    """Files in a directory, in a folder of it, hidden, and those that systems leave there."""
    for name in (
        "b.csv",
        "a.csv",
        "x[1].csv",
        "x1.csv",
        "back\\slash.csv",
        ".hidden",
        "Thumbs.db",
        "_SUCCESS",
        "deep/c.csv",
        ".h/d.csv",
        "__MACOSX/a.csv",
    ):
        path = tmp_path / "data[1]*" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"x")
    return tmp_path / "data[1]*"


def test_a_directory_stands_for_the_files_in_it(directory: pathlib.Path):
    here = ["a.csv", "b.csv", "back\\slash.csv", "x1.csv", "x[1].csv"]
    assert named(directory) == named(f"{directory}/") == here
    assert named(directory, deep=True) == [*here[:3], "c.csv", *here[3:]]


def test_a_file_of_exactly_that_name_comes_before_a_glob(directory: pathlib.Path):
    assert named(directory / "x[1].csv") == ["x[1].csv"]


def test_a_glob_matches_no_hidden_file(directory: pathlib.Path):
    directory.rename(directory.parent / "data")
    assert named(directory.parent / "data" / "[ab].csv") == ["a.csv", "b.csv"]
    assert named(directory.parent / "data" / "**" / "*.csv") == ["c.csv"]


def test_what_may_never_end_is_refused(tmp_path: pathlib.Path):
    os.mkfifo(tmp_path / "rows.csv")
    (tmp_path / "link.csv").symlink_to("rows.csv")
    for given in ("rows.csv", "link.csv", "*.csv", ""):
        with pytest.raises(InputError, match="csv: received a pipe; expected an ordinary file"):
            named(tmp_path / given)
    with pytest.raises(InputError, match="input /dev/zero: received a device"):
        named("/dev/zero")
