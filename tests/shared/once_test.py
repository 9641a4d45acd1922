"""A folder is made once, whoever asks, and anew where making it failed."""

import pathlib

import pytest

from tests.shared import once


def test_the_second_gets_what_the_first_made(tmp_path_factory: pytest.TempPathFactory):
    made: list[pathlib.Path] = []
    for _ in range(2):
        assert once.folder(tmp_path_factory, "made-once", made.append).is_dir()
    assert len(made) == 1


def test_what_failed_is_made_anew(tmp_path_factory: pytest.TempPathFactory):
    def fail(path: pathlib.Path) -> None:
        (path / "half").touch()
        raise ValueError

    with pytest.raises(ValueError):
        once.folder(tmp_path_factory, "made-again", fail)
    path = once.folder(tmp_path_factory, "made-again", lambda path: (path / "whole").touch())
    assert [each.name for each in path.iterdir()] == ["whole"]
