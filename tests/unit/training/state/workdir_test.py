"""Files of a run are whole."""

import os

import pytest

from pipeline.base import files
from pipeline.base.errors import InputError
from pipeline.training.state import workdir


def test_json_that_is_there_is_read(tmp_path):
    files.write_json(tmp_path / "run.json", {"a": [1, 2]})
    assert workdir.read_json(tmp_path / "run.json") == {"a": [1, 2]}


@pytest.mark.parametrize("content", ["{", "", "null"])
def test_json_that_was_damaged_is_named(tmp_path, content):
    (tmp_path / "run.json").write_text(content)
    with pytest.raises(InputError, match=r"run\.json: received invalid JSON"):
        workdir.read_json(tmp_path / "run.json")


def test_absent_json_is_none(tmp_path):
    assert workdir.read_json(tmp_path / "run.json") is None


def test_a_pipe_is_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "run.json")
    with pytest.raises(OSError, match="not an ordinary file"):
        workdir.read_json(tmp_path / "run.json")
