"""A document says what was written, or that it was not; a line is there whole or not at all."""

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


def test_a_line_has_null_for_what_is_not_a_number(tmp_path):
    path = tmp_path / "lines.jsonl"
    documents.append_line(path, {"step": 1, "loss": float("nan")})
    assert '"loss": null' in path.read_text()
    assert read(path) == [{"step": 1, "loss": None}]


def test_a_pipe_in_place_of_lines_is_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "lines.jsonl")
    with pytest.raises(InputError, match=r"lines\.jsonl: received not an ordinary file"):
        read(tmp_path / "lines.jsonl")


@pytest.mark.parametrize(
    ("was", "is_"), [("seven", "eight"), ("made.of/1", "made.of/2"), ("{", "["), ('"digest"', '"digit"')]
)
def test_a_document_that_was_altered_is_unreadable(tmp_path, was, is_):
    path = tmp_path / "document.json"
    documents.write(path, {"format": "made.of/1", "number": "seven"})
    assert documents.read(path, file_format="made.of/1")["number"] == "seven"
    path.write_text(path.read_text().replace(was, is_, 1))
    with pytest.raises(documents.UNREADABLE):
        documents.read(path, file_format="made.of/1")


def test_a_document_of_another_format_is_told(tmp_path):
    documents.write(tmp_path / "document.json", {"format": "made.of/2"})
    with pytest.raises(ValueError, match=r"format 'made.of/2' in place of 'made.of/1'"):
        documents.read(tmp_path / "document.json", file_format="made.of/1")


def test_a_space_more_is_noticed_where_the_indent_is_known(tmp_path):
    path = tmp_path / "document.json"
    documents.write(path, {"number": 7})
    path.write_text(path.read_text() + " ")
    assert documents.read(path)["number"] == 7
    with pytest.raises(ValueError, match="bytes in place of"):
        documents.read(path, indent=2)
