"""Which checkpoints lie in a directory, and how they come and go."""

import pathlib

import pytest

from pipeline.base.errors import InputError
from pipeline.training.state import checkpoints
from pipeline.training.state.checkpoints import Manifest


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
