"""A manifest of another format is refused; what was written otherwise than by a run is damage."""

import json
import os

import pytest

from pipeline.base import documents
from pipeline.base.errors import InputError
from pipeline.training.state import checkpoints
from pipeline.training.state.checkpoints import DamagedError, Manifest


@pytest.fixture
def written(tmp_path):
    made = Manifest(step=7, saved="now", run={"order": 2}, metrics={"val_loss": 0.5}, variables={})
    (tmp_path / "variables").write_text("whole")
    checkpoints.write_manifest(tmp_path, made)
    return tmp_path


def test_it_says_what_was_written(written):
    found = checkpoints.check_manifest(written)
    assert (found.step, found.run, found.metrics) == (7, {"order": 2}, {"val_loss": 0.5})
    assert found.files["variables"]["bytes"] == 5


def test_a_later_format_is_no_damage(written):
    path = written / checkpoints.FILE_NAME
    document = json.loads(path.read_text()) | {"format": "penstock.checkpoint/99"}
    path.write_text(json.dumps(documents.with_digest(document), indent=1) + "\n")
    with pytest.raises(InputError, match=r"received format \S+/99; expected penstock.checkpoint/1"):
        checkpoints.check_manifest(written)


@pytest.mark.parametrize("content", [b"", b"[]", b"{}", b"null", b"\xff", b"[" * 5000])
def test_what_is_no_manifest_is_damage(written, content):
    (written / checkpoints.FILE_NAME).write_bytes(content)
    with pytest.raises(DamagedError, match=r"manifest.json: not as it was written"):
        checkpoints.check_manifest(written)


def test_a_space_more_is_damage(written):
    path = written / checkpoints.FILE_NAME
    path.write_text(path.read_text() + " ")
    with pytest.raises(DamagedError, match=r"manifest.json: not as it was written"):
        checkpoints.check_manifest(written)


def test_a_directory_in_place_of_a_file_is_damage(written):
    (written / "variables").unlink()
    (written / "variables").mkdir()
    with pytest.raises(DamagedError, match=r"variables: "):
        checkpoints.check_manifest(written)


def test_a_pipe_in_place_of_a_file_is_not_waited_for(written):
    (written / checkpoints.FILE_NAME).unlink()
    os.mkfifo(written / checkpoints.FILE_NAME)
    with pytest.raises(DamagedError, match=r"manifest.json: "):
        checkpoints.check_manifest(written)
