"""Files of a run are whole, and its history holds every step once."""

import json

import pytest

from pipeline.data import atomic_files
from pipeline.data.errors import InputError
from pipeline.training.state import workdir


def test_json_that_is_there_is_read(tmp_path):
    atomic_files.write_json(tmp_path / "run.json", {"a": [1, 2]})
    assert workdir.read_json(tmp_path / "run.json") == {"a": [1, 2]}


def test_json_that_was_damaged_is_named(tmp_path):
    (tmp_path / "run.json").write_text("{")
    with pytest.raises(InputError, match=r"run\.json: received invalid JSON"):
        workdir.read_json(tmp_path / "run.json")


def test_absent_json_is_none(tmp_path):
    assert workdir.read_json(tmp_path / "run.json") is None


def test_history_is_cut_back_to_the_restored_step(tmp_path):
    path = tmp_path / "history.jsonl"
    for step in (10, 20, 30):
        workdir.append_line(path, {"step": step})
    workdir.keep_lines_up_to(path, 20)
    assert [json.loads(line)["step"] for line in path.read_text().splitlines()] == [10, 20]


def test_line_that_a_kill_cut_short_is_dropped(tmp_path):
    path = tmp_path / "history.jsonl"
    path.write_text('{"step": 10}\n{"step": 2')
    workdir.keep_lines_up_to(path, 20)
    assert path.read_text() == '{"step": 10}\n'


def test_new_history_is_empty(tmp_path):
    workdir.keep_lines_up_to(tmp_path / "history.jsonl", 0)
    assert (tmp_path / "history.jsonl").read_text() == ""
