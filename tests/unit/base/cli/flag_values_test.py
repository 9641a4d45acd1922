"""Directories as users name them."""

import pathlib

import pytest

from pipeline.base.cli import flags


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("new", "here/new"),
        ("./new/", "here/new"),
        ("../new", "new"),
        ("..", "."),
        ("link/new", "here/link/new"),
        ("link/../new", "elsewhere/new"),  # as the system goes: through the link first
    ],
)
def test_a_directory_is_absolute(tmp_path: pathlib.Path, monkeypatch, value: str, expected: str):
    here, linked = tmp_path / "here", tmp_path / "elsewhere" / "linked"
    here.mkdir()
    linked.mkdir(parents=True)
    (here / "link").symlink_to(linked)
    monkeypatch.chdir(here)
    assert flags.directory(value) == str(tmp_path / expected)
    assert flags.local_directory("workdir", value) == tmp_path / expected


def test_a_url_stays():
    assert flags.directory("gs://bucket/some/") == "gs://bucket/some"
