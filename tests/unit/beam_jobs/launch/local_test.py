"""The output directory: claimed by one run, cleared after a killed one, never somebody else's."""

import os
import pathlib
import shutil

import pytest

from beam_jobs.launch import local_output
from beam_jobs.launch import output as output_lib
from beam_jobs.launch.claims import CLAIM_MARK
from pipeline.base.errors import InputError


def killed_run(output: pathlib.Path) -> None:
    """Leaves what a run leaves that was killed while it published."""
    (output / "_tmp" / "an older run").mkdir(parents=True)
    (output / "rejected").mkdir()
    (output / "_tmp" / "written-by-penstock").touch()
    for name in ("s-train.tfrecord-00000-of-00001", "schema.json", "label.labels.txt", "_tmp/progress"):
        (output / name).write_text("half")


def check_refused(output: pathlib.Path, match: str) -> None:
    with pytest.raises(InputError, match=match), local_output.claimed(str(output)):
        pytest.fail("what is somebody else's was claimed")


@pytest.mark.parametrize("name", ["predictions.csv", "gs://bucket/data.TFRecord"])
def test_the_name_of_a_file_is_not_taken_for_a_directory(name: str):
    expected = f"Write --output={name.rpartition('.')[0]}\\."
    with pytest.raises(InputError, match=expected), output_lib.claimed(name):
        pytest.fail("it was claimed")


def test_a_failed_run_leaves_no_trace(tmp_path: pathlib.Path):
    output = tmp_path / "data" / "s" / "1.0.0"
    with pytest.raises(ZeroDivisionError), local_output.claimed(str(output)) as destination:
        (destination.local / "shard").write_text("half")
        (output / "schema.json").write_text("half")
        raise ZeroDivisionError
    assert list(tmp_path.iterdir()) == []


def test_the_vouching_file_is_written_last(tmp_path: pathlib.Path):
    with local_output.claimed(str(tmp_path)) as destination:
        (destination.local / "shard").write_text("records")
        destination.move(str(destination.local / "shard"), "s-train.tfrecord-00000-of-00001")
        assert not (tmp_path / "manifest.json").exists()
        destination.commit("manifest.json", "{}")
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {
        "s-train.tfrecord-00000-of-00001": "records",
        "manifest.json": "{}",
    }


def test_all_files_are_on_the_disk_before_one_vouches_for_them(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
):
    synced: list[tuple[str, bool]] = []
    fsync = os.fsync

    def watched(descriptor: int) -> None:
        fsync(descriptor)
        name = pathlib.Path(f"/proc/self/fd/{descriptor}").readlink().name
        synced.append((name, (tmp_path / "manifest.json").exists()))

    monkeypatch.setattr(os, "fsync", watched)
    with local_output.claimed(str(tmp_path)) as destination:
        (tmp_path / "schema.json").write_text("{}")
        (tmp_path / "rejected").mkdir()
        (tmp_path / "rejected" / "rejected.jsonl").write_text("")
        destination.commit("manifest.json", "{}")
    names = {tmp_path.name, "rejected", "rejected.jsonl", "schema.json"}
    assert {*synced[:-2]} == {(name, False) for name in names}
    assert synced[-2:] == [("manifest.json", False), (tmp_path.name, True)]


def test_the_vouching_file_is_never_half_written(tmp_path: pathlib.Path):
    with pytest.raises(UnicodeEncodeError), local_output.claimed(str(tmp_path)) as destination:
        destination.commit("manifest.json", "\ud800")  # cannot be encoded: as good as a full disk
    assert list(tmp_path.iterdir()) == []


def test_directories_that_were_there_stay(tmp_path: pathlib.Path):
    output = tmp_path / "s"
    output.mkdir()
    with pytest.raises(ZeroDivisionError), local_output.claimed(str(output)):
        raise ZeroDivisionError
    assert list(tmp_path.rglob("*")) == [output]


def test_what_a_killed_run_left_is_cleared(tmp_path: pathlib.Path):
    killed_run(tmp_path)
    with local_output.claimed(str(tmp_path)) as destination:
        assert [path.name for path in tmp_path.iterdir()] == ["_tmp"]
        assert sorted((tmp_path / "_tmp").iterdir()) == sorted([destination.local, tmp_path / CLAIM_MARK])
    assert list(tmp_path.iterdir()) == []


def test_foreign_files_among_them_are_never_removed(tmp_path: pathlib.Path):
    killed_run(tmp_path)
    (tmp_path / "thesis.tex").write_text("years of work")
    before = sorted(tmp_path.rglob("*"))
    check_refused(tmp_path, r"thesis\.tex")
    assert sorted(tmp_path.rglob("*")) == before


def test_files_named_like_ours_without_our_mark_are_never_removed(tmp_path: pathlib.Path):
    (tmp_path / "mnist-train.tfrecord-00000-of-00001").write_text("written by TFDS")
    check_refused(tmp_path, "mnist-train")
    assert (tmp_path / "mnist-train.tfrecord-00000-of-00001").exists()


def test_a_tmp_of_somebody_else_is_never_emptied(tmp_path: pathlib.Path):
    (tmp_path / "_tmp").mkdir()
    (tmp_path / "_tmp" / "thesis.tex").write_text("years of work")
    for _ in range(2):
        check_refused(tmp_path, "a directory that holds _tmp")
        (tmp_path / "manifest.json.bak").touch()
    assert (tmp_path / "_tmp" / "thesis.tex").exists()


def test_a_tmp_of_somebody_else_beside_a_published_dataset_stays(tmp_path: pathlib.Path):
    (tmp_path / "manifest.json").write_text("{}")
    (tmp_path / "_tmp").mkdir()
    check_refused(tmp_path, "a published dataset")
    assert (tmp_path / "_tmp").exists()


def test_a_run_that_was_killed_before_it_left_its_mark_is_cleared(tmp_path: pathlib.Path):
    (tmp_path / "_tmp").mkdir()
    with local_output.claimed(str(tmp_path)):
        pass
    assert list(tmp_path.iterdir()) == []


def test_a_thread_that_still_writes_does_not_bring_the_folder_back(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
):
    rmtree = shutil.rmtree

    def writes_meanwhile(path: pathlib.Path) -> None:
        with pytest.raises(FileNotFoundError):
            (late[0] / "shard").write_text("too late")
        rmtree(path)

    late: list[pathlib.Path] = []
    monkeypatch.setattr(shutil, "rmtree", writes_meanwhile)
    with pytest.raises(ZeroDivisionError), local_output.claimed(str(tmp_path)) as destination:
        late.append(destination.local)
        raise ZeroDivisionError
    assert list(tmp_path.iterdir()) == []


def test_a_published_dataset_is_refused_and_kept(tmp_path: pathlib.Path):
    killed_run(tmp_path)  # killed after its last act but one
    (tmp_path / "manifest.json").write_text("{}")
    check_refused(tmp_path, "a published dataset")
    assert (tmp_path / "schema.json").exists()
    assert not (tmp_path / "_tmp").exists()


def test_two_runs_cannot_write_to_one_directory(tmp_path: pathlib.Path):
    with local_output.claimed(str(tmp_path / "s")):
        running = rf"process {os.getpid()} of host .*, running since 20.* is writing to"
        check_refused(tmp_path / "s", running)


def test_an_output_below_a_file_is_refused(tmp_path: pathlib.Path):
    (tmp_path / "file").write_text("")
    check_refused(tmp_path / "file" / "s", "a directory that can be created")
