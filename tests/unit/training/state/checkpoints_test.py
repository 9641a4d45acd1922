"""The folder of checkpoints, and the manifest of each."""

import dataclasses
import json
import os
import pathlib

import numpy as np
import pytest

from pipeline.base import documents
from pipeline.base.errors import InputError
from pipeline.training.state import checkpoints
from pipeline.training.state.checkpoints import DamagedError, Manifest
from tests.unit.training.state.run_record_test import RECORD

# Which checkpoints lie in a directory, and how they come and go.


def publish(root: pathlib.Path, step: int, *, content: str = "whole") -> None:
    temporary = checkpoints.temporary(root, step)
    temporary.mkdir(parents=True)
    (temporary / "variables").write_text(content)
    made = Manifest(step=step, saved="2030-01-01T00:00:00Z", run={}, metrics={}, variables={})
    checkpoints.write_manifest(temporary, made)
    checkpoints.publish_checkpoint(temporary)


def names(root: pathlib.Path) -> list[str]:
    return sorted(path.name for path in root.iterdir())


def test_the_newest_is_first(tmp_path):
    for step in (9, 100_000_000, 30):
        publish(tmp_path, step)
    found = checkpoints.newest_first(tmp_path)
    assert [entry.step for entry in found] == [100_000_000, 30, 9]
    assert not any(entry.damage() for entry in found)


def test_other_files_and_half_written_ones_are_none(tmp_path):
    checkpoints.temporary(tmp_path, 4).mkdir()
    (tmp_path / "step-00000005.damaged").mkdir()
    (tmp_path / "step-five").mkdir()
    assert checkpoints.newest_first(tmp_path) == []
    assert checkpoints.newest_first(tmp_path / "nowhere") == []


def test_one_of_which_a_file_is_missing_is_damaged_and_not_absent(tmp_path):
    publish(tmp_path, 30)
    assert checkpoints.is_sound(tmp_path, 30)
    (tmp_path / "step-00000030" / "variables").unlink()
    (entry,) = checkpoints.newest_first(tmp_path)
    assert entry.damage().startswith("step-00000030/variables: ")
    assert not checkpoints.is_sound(tmp_path, 30)


def test_one_that_is_removed_is_gone(tmp_path):
    publish(tmp_path, 30)
    checkpoints.remove_checkpoint(checkpoints.newest_first(tmp_path)[0])
    assert names(tmp_path) == []


def test_one_is_never_written_over(tmp_path):
    publish(tmp_path, 1)
    with pytest.raises(OSError, match="not empty"):
        publish(tmp_path, 1, content="another")
    assert (tmp_path / "step-00000001" / "variables").read_text() == "whole"


def test_damaged_ones_are_set_aside_until_their_step_is_saved_again(tmp_path):
    publish(tmp_path, 1)
    checkpoints.set_aside(checkpoints.newest_first(tmp_path)[0])
    assert names(tmp_path) == ["step-00000001.damaged"]
    assert [path.name for path in checkpoints.damaged_ones(tmp_path)] == names(tmp_path)
    publish(tmp_path, 1)
    assert names(tmp_path) == ["step-00000001"]


def test_what_a_kill_left_half_written_or_half_deleted_is_swept(tmp_path):
    publish(tmp_path, 1)
    checkpoints.temporary(tmp_path, 2).mkdir()
    (tmp_path / "step-00000003.old.tmp").mkdir()
    (tmp_path / "notes.tmp").write_text("somebody else's")
    checkpoints.sweep(tmp_path)
    assert names(tmp_path) == ["notes.tmp", "step-00000001"]


@pytest.mark.parametrize("put", [lambda path: path.write_text(""), lambda path: path.symlink_to(path.name)])
def test_what_stands_in_the_place_of_the_checkpoints_is_refused_before_a_run_begins_anew(tmp_path, put):
    put(tmp_path / "checkpoints")
    with pytest.raises(InputError, match=r"^checkpoints \S+/checkpoints: received a file, or a link"):
        checkpoints.sweep(tmp_path / "checkpoints")
    checkpoints.sweep(tmp_path / "none yet")


# A manifest of another format is refused; what was written otherwise than by a run is damage.


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


# Arrays are taken out of a document of JSON, and put back.


def test_what_is_packed_is_unpacked():
    weights = [np.arange(6, dtype=np.float32).reshape(2, 3), np.array(np.inf), np.zeros(0, np.int64)]
    document = {"best": [{"weights": weights}, None], "wait": 3, "value": float("-inf"), "name": "größe"}
    text, arrays = checkpoints.pack_nested(document)
    weights[0][:] = 7  # as training does meanwhile
    unpacked = checkpoints.unpack_nested(text, arrays)
    kept = unpacked["best"][0].pop("weights")
    assert [(each.dtype, each.shape) for each in kept] == [(each.dtype, each.shape) for each in weights]
    np.testing.assert_array_equal(kept[0], [[0, 1, 2], [3, 4, 5]])
    assert unpacked == {"best": [{}, None], "wait": 3, "value": float("-inf"), "name": "größe"}


def test_what_json_and_arrays_cannot_hold_is_refused():
    with pytest.raises(TypeError, match="a checkpoint cannot hold a set"):
        checkpoints.pack_nested({"names": {1}})


# A checkpoint goes on in its own run only.

NOW = checkpoints.identity_of_run(RECORD, schema="s")
AUGMENTED = checkpoints.identity_of_run(dataclasses.replace(RECORD, augmentation=1), schema="s")


@pytest.mark.parametrize("now", [NOW, AUGMENTED])
def test_a_checkpoint_of_the_same_run_goes_on(now):
    checkpoints.require_same_run(dict(now), now, checkpoint="7")


def test_a_checkpoint_of_another_run_does_not():
    with pytest.raises(InputError, match="checkpoint 7, augmentation: received 0; expected 1, as in the run"):
        checkpoints.require_same_run(NOW, AUGMENTED, checkpoint="7")


def test_a_setting_is_named_before_the_version_that_comes_of_it():
    config = AUGMENTED["config"]
    saved = AUGMENTED | {"config": config | {"augmentation": config["augmentation"] | {"flip": True}}}
    with pytest.raises(InputError, match=r"checkpoint 7, augmentation\.flip: received True"):
        checkpoints.require_same_run(saved, NOW, checkpoint="7")
