"""A file is there whole, with nothing beside it, or as it was before."""

import errno
import json
import os

import pytest

from pipeline.base import files
from tests.shared.full_disk import no_room


def test_json_is_written_with_its_directory_and_nothing_beside_it(tmp_path):
    files.write_json(tmp_path / "new" / "run.json", {"a": [1, 2]})
    assert json.loads((tmp_path / "new" / "run.json").read_text()) == {"a": [1, 2]}
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["run.json"]


def test_a_write_that_fails_leaves_the_old_content(tmp_path):
    path = tmp_path / "run.json"
    path.write_text("old")
    with pytest.raises(TypeError):
        files.write_bytes(path, "not bytes")  # fails after the draft was opened
    assert path.read_text() == "old"


def test_a_pipe_where_the_draft_goes_is_not_waited_for_and_a_link_not_followed(tmp_path):
    os.mkfifo(tmp_path / "run.json.tmp")
    (tmp_path / "report.html.tmp").symlink_to(tmp_path / "run.json")
    files.write_bytes(tmp_path / "run.json", b"new")
    files.write_bytes(tmp_path / "report.html", b"page")
    found = {each.name: each.read_text() for each in tmp_path.iterdir()}
    assert found == {"run.json": "new", "report.html": "page"}


def test_a_disk_that_is_full_is_told_with_the_file_and_leaves_the_old_content(tmp_path):
    path = tmp_path / "run.json"
    path.write_text("old")
    with no_room(5), pytest.raises(OSError) as told:
        files.write_bytes(path, b"more than five")
    assert (told.value.errno, told.value.filename) == (errno.EFBIG, str(path))
    assert [(each.name, each.read_text()) for each in tmp_path.iterdir()] == [("run.json", "old")]
