"""The run's directory, and the history in it."""

import json
import os

import pytest

from pipeline.base import files
from pipeline.base.errors import InputError
from pipeline.training.state import workdir

# Files of a run are whole.


def test_json_that_is_there_is_read(tmp_path):
    files.write_json(tmp_path / "run.json", {"a": [1, 2]})
    assert workdir.read_json(tmp_path / "run.json") == {"a": [1, 2]}


@pytest.mark.parametrize("content", ["{", "", "null", "[1]"])
def test_json_that_was_damaged_is_named(tmp_path, content):
    (tmp_path / "run.json").write_text(content)
    with pytest.raises(InputError, match=r"run\.json: received invalid JSON .* or delete it"):
        workdir.read_json(tmp_path / "run.json")
    with pytest.raises(InputError, match=r"run\.json: received invalid JSON .* in an empty --workdir"):
        workdir.read_json(tmp_path / "run.json", is_needed=True)


def test_absent_json_is_none(tmp_path):
    assert workdir.read_json(tmp_path / "run.json") is None


def test_a_pipe_is_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "run.json")
    with pytest.raises(OSError, match="not an ordinary file"):
        workdir.read_json(tmp_path / "run.json")


# The history holds every step once, and a damaged line is named.


@pytest.fixture
def path(tmp_path):
    """A history of three log points."""
    for step in (10, 20, 30):
        workdir.append_history(tmp_path / "history.jsonl", {"step": step, "loss": 0.5})
    return tmp_path / "history.jsonl"


def steps(path) -> list[int]:
    return [json.loads(line)["step"] for line in path.read_text().splitlines()]


def test_it_is_cut_back_to_the_restored_step(path):
    workdir.keep_history_up_to(path, 20)
    assert steps(path) == [10, 20]


def test_a_line_that_a_kill_cut_short_is_dropped(path):
    path.write_bytes(path.read_bytes()[:-9])
    workdir.keep_history_up_to(path, 20)
    assert steps(path) == [10, 20]


def test_a_new_history_is_empty(tmp_path):
    workdir.keep_history_up_to(tmp_path / "history.jsonl", 0)
    assert (tmp_path / "history.jsonl").read_text() == ""


def test_a_run_whose_history_was_deleted_goes_on(tmp_path):
    workdir.keep_history_up_to(tmp_path / "history.jsonl", 20)
    assert (tmp_path / "history.jsonl").read_text() == ""


@pytest.mark.parametrize(
    ("was", "is_", "received"),
    [
        ("0.5", "0.7", r"a line 1 with checksum \d+ in place of"),
        ("crc32", "crc33", "a line 1 with checksum None in place of"),
        ("{", "[", "a line 1 that is damaged"),
        ('"step": 20', '"slep": 20', "a line 2 that is damaged"),
        ("}\n{", "}!{", "a line 1 that is damaged"),
    ],
)
def test_a_damaged_line_is_named(path, was, is_, received):
    path.write_text(path.read_text().replace(was, is_, 1))
    with pytest.raises(InputError, match=rf"history\.jsonl: received {received}.*delete it"):
        workdir.keep_history_up_to(path, 30)


def test_the_line_of_a_checkpoint_must_be_there(path):
    path.write_bytes(path.read_bytes()[:-1])  # so the last line counts as cut short
    with pytest.raises(InputError, match="received no line of step 30, of which there is a checkpoint"):
        workdir.keep_history_up_to(path, 30)
