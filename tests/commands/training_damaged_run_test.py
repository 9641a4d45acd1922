"""A run on damaged data: it stops by name, or does without what is damaged, from its start to its end."""

import json
import pathlib
import shutil

import pytest

from pipeline.base.errors import InputError
from pipeline.data.dataset.manifest import open_dataset
from pipeline.data.integrity.changes import Watched
from pipeline.training.run import run
from pipeline.training.run.request import Request
from pipeline.training.state import checkpoints
from pipeline.training.state import workdir as files
from tests.shared.parsed import parsed
from tests.shared.small_run import small_config, write_small_dataset

SHARD = "tiny-train.tfrecord-00001-of-00002"


@pytest.fixture
def damaged(dataset, tmp_path) -> pathlib.Path:
    """A copy of the dataset with one flipped bit, in the first of the 100 records of a shard."""
    copy = pathlib.Path(shutil.copytree(dataset.directory, tmp_path / "damaged"))
    flip(copy, 20)
    return copy


def flip(directory: pathlib.Path, byte: int) -> None:
    data = bytearray((directory / SHARD).read_bytes())
    data[byte] ^= 1
    (directory / SHARD).write_bytes(data)


def request(dataset: pathlib.Path, workdir: pathlib.Path, *, steps: int = 20, **changes) -> Request:
    config = small_config()
    config.train.steps = steps
    config.optimizer.schedule = "constant"  # so that a run may be made longer and be the same
    return Request(
        experiment=parsed(config),
        dataset=open_dataset(dataset),
        workdir=workdir,
        strategy="one_device",
        precision="float32",
        **changes,
    )


def test_stops_at_a_damaged_record_and_names_it(damaged, tmp_path):
    with pytest.raises(InputError, match=rf"1 damaged record: {SHARD}, record 0 at byte 0: .*checksum"):
        run.train(request(damaged, tmp_path / "run"))


@pytest.mark.slow
def test_goes_on_without_it_and_reports_it(damaged, tmp_path):
    run.train(request(damaged, tmp_path / "run", max_corrupt_records=1))
    left_out = files.read_json(tmp_path / "run" / "damaged.json")
    assert left_out["rows"] == 1
    assert [(one["file"], one["ordinal"], one["offset"]) for one in left_out["records"]] == [(SHARD, 0, 0)]
    assert files.read_json(tmp_path / "run" / "run.json")["damaged_records"] == 1
    page = (tmp_path / "run" / "report.html").read_text()
    assert "Damaged records, left out" in page
    assert f"<td>{SHARD}</td>" in page


@pytest.mark.slow
def test_ends_the_same_when_cut_in_two_though_the_shard_was_repaired_meanwhile(damaged, dataset, tmp_path):
    whole = run.train(request(damaged, tmp_path / "whole", max_corrupt_records=1))
    run.train(request(damaged, tmp_path / "halves", max_corrupt_records=1, steps=10))
    shutil.copy(dataset.directory / SHARD, damaged / SHARD)
    resumed = run.train(request(damaged, tmp_path / "halves", max_corrupt_records=1))
    losses = [
        json.loads((tmp_path / name / "history.jsonl").read_text().splitlines()[-1])["loss"]
        for name in ("whole", "halves")
    ]
    assert (resumed["examples"], losses[0]) == (whole["examples"], losses[1])


@pytest.mark.slow
def test_damage_on_the_way_is_refused_whatever_the_budget(damaged, tmp_path):
    run.train(request(damaged, tmp_path / "run", max_corrupt_records=5, steps=5))
    flip(damaged, (damaged / SHARD).stat().st_size - 1)
    with pytest.raises(InputError, match=r"1 damaged record: .*record 99 at byte .*empty --workdir"):
        run.train(request(damaged, tmp_path / "run", max_corrupt_records=5))


# A dataset that changes under a run ends it at the next log point, before anything is saved.


@pytest.mark.slow
@pytest.mark.parametrize(
    ("layout", "shuffle"), [("rows", "global"), ("rows", "windows"), ("blocks", "global")]
)
def test_another_shard_of_the_same_size_ends_the_run_before_a_checkpoint(
    tmp_path, monkeypatch: pytest.MonkeyPatch, layout: str, shuffle: str
):
    dataset, checks = write_small_dataset(tmp_path / "tiny", layout=layout), []
    shard = dataset.directory / SHARD

    class Changing(Watched):
        """Somebody replaces the shard after the log point and save of step 6, and the log point of 10."""

        def check(self) -> None:
            checks.append(None)
            if len(checks) == 4:
                shard.with_name("other").write_bytes(shard.read_bytes()[::-1])
                shard.with_name("other").replace(shard)
            super().check()

    monkeypatch.setattr(run, "Watched", Changing)
    config = small_config()
    config.shuffle = shuffle
    request = Request(
        experiment=parsed(config),
        dataset=dataset,
        workdir=tmp_path / "run",
        strategy="one_device",
        precision="float32",
    )
    with pytest.raises(InputError, match=rf"dataset file \S+/{SHARD}: .*never changes after publication"):
        run.train(request)
    saved = checkpoints.newest_first(tmp_path / "run" / "checkpoints")
    assert [entry.step for entry in saved] == [6]
