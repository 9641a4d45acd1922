"""A path in a cell leads into a declared folder, whatever links and dots it has."""

import pathlib

import pytest

from beam_jobs.cells.images import check_root, paths_outside
from pipeline.base.errors import InputError


@pytest.fixture
def table(tmp_path: pathlib.Path) -> pathlib.Path:
    """A folder with a table's files, beside another that is secret."""
    for name in ("table/inside/1.png", "secret/key"):
        path = tmp_path / name
        path.parent.mkdir(parents=True)
        path.write_bytes(b"")
    (tmp_path / "table" / "link").symlink_to(tmp_path / "secret" / "key")
    (tmp_path / "table" / "folder").symlink_to(tmp_path / "secret")
    (tmp_path / "table" / "inner").symlink_to("inside")
    return tmp_path / "table"


@pytest.mark.parametrize(
    "path", ["1.png", "inside/1.png", "inner/1.png", "inside/../inside/1.png", "nowhere"]
)
def test_what_lies_in_the_folder_is_inside(table: pathlib.Path, path: str):
    assert paths_outside([None, f"{table}/{path}"], [str(table)]) == []


@pytest.mark.parametrize(
    "path", ["../secret/key", "link", "folder/key", "inside/../../secret/key", "..", "a\0b"]
)
def test_what_leads_out_of_it_is_outside(table: pathlib.Path, path: str):
    assert paths_outside([f"{table}/inside/1.png", f"{table}/{path}"], [str(table)]) == [1]


def test_another_folder_has_to_be_declared(table: pathlib.Path):
    secret = str(table.parent / "secret")
    paths = [f"{secret}/key", "/etc/passwd", "gs://bucket/1.png", "gs://bucket2/1.png", "gs://bucket/../x"]
    assert paths_outside(paths, [str(table), secret, "gs://bucket"]) == [1, 3, 4]
    assert paths_outside(paths, [""]) == [0, 1, 2, 3, 4]


def test_a_root_that_is_not_there_is_refused(tmp_path: pathlib.Path):
    assert check_root(str(tmp_path)) == str(tmp_path)
    with pytest.raises(InputError, match=r"--path_root=.*no folder there"):
        check_root(str(tmp_path / "nowhere"))
