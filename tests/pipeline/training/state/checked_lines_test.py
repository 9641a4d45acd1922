"""A line is in the file whole or not at all, on a full disk too."""

import errno
import os

import pytest

from pipeline.base import documents
from pipeline.base.errors import InputError
from tests.shared.full_disk import no_room


def read(path) -> list[dict]:
    return documents.read_lines(path, checked=dict, without="it")


@pytest.mark.parametrize("room", [0, 5])  # bytes for the second line, which needs more
def test_a_line_that_the_disk_has_no_room_for_leaves_the_file_as_it_was(tmp_path, room):
    path = tmp_path / "lines.jsonl"
    documents.append_line(path, {"step": 1})
    before = path.read_bytes()
    with no_room(len(before) + room), pytest.raises(OSError) as told:
        documents.append_line(path, {"step": 2})
    assert (told.value.errno, told.value.filename) == (errno.EFBIG, str(path))
    assert path.read_bytes() == before
    documents.append_line(path, {"step": 3})  # somebody made room: a thread goes on, as the ledger's does
    assert read(path) == [{"step": 1}, {"step": 3}]


def test_a_pipe_in_place_of_lines_is_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "lines.jsonl")
    with pytest.raises(InputError, match=r"lines\.jsonl: received not an ordinary file"):
        read(tmp_path / "lines.jsonl")
