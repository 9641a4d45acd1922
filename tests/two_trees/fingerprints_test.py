"""What differs is named, what differs by nature is not; an order is told example by example."""

import json
import pathlib
import shutil

import pytest

from pipeline.base.errors import InputError
from pipeline.configs import base
from tests.pipeline.training.small_run import write_small_dataset
from tests.two_trees import fingerprints, made, order_config
from tests.two_trees.fingerprints import Compared


@pytest.fixture
def dataset(tmp_path: pathlib.Path) -> pathlib.Path:
    return write_small_dataset(tmp_path / "before").directory


def differing(before: pathlib.Path, after: pathlib.Path) -> list[str]:
    lines = fingerprints.compare(*(fingerprints.of_directory(each, name="d") for each in (before, after)))
    return [line.what for line in lines if not line.same]


def test_a_planted_difference_is_named(dataset, tmp_path):
    copy = shutil.copytree(dataset, tmp_path / "after")
    assert not differing(dataset, copy)
    shard = copy / "tiny-train.tfrecord-00001-of-00002"
    shard.write_bytes(shard.read_bytes()[:-1] + b"?")
    (copy / "statistics.pb").unlink()
    (copy / "more.json").write_text("{}")
    assert differing(dataset, copy) == [
        "d/statistics.pb",
        "d/tiny-train.tfrecord-00001-of-00002",
        "d/more.json",
    ]


def test_a_missing_file_stands_on_one_side_only():
    assert fingerprints.compare({"a": "1"}, {"b": "2"}) == [
        Compared(what="a", before="1", after=""),
        Compared(what="b", before="", after="2"),
    ]


def test_times_and_paths_do_not_count_but_all_else_in_the_file_does(tmp_path):
    def run(name: str, **fields: object) -> pathlib.Path:
        (tmp_path / name / "summaries" / "train").mkdir(parents=True)
        (tmp_path / name / "summaries" / "train" / f"events.{name}").touch()
        (tmp_path / name / "run.json").write_text(json.dumps({"order": 2, "seconds": 1.0} | fields))
        (tmp_path / name / "history.jsonl").write_text('{"loss": 1.0, "step_ms": %d}\n' % len(name))  # noqa: UP031
        return tmp_path / name

    before = run("before")
    assert not differing(before, run("after", seconds=2.0))
    [unlike] = differing(before, run("later", order=3))
    assert unlike.startswith("d/run.json without command, ")
    assert fingerprints.versions(before, name="d") == {"d/run.json: order": "2"}


def test_a_checkpoint_is_its_files_but_for_times(tmp_path):
    def checkpoint(name: str, *, weight: bytes, seconds: float) -> pathlib.Path:
        directory = tmp_path / name / "checkpoints" / "step-00000001"
        directory.mkdir(parents=True)
        (directory / "variables.index").write_bytes(weight)
        (directory / "session.json").write_text(json.dumps({"epoch": {"seconds": seconds}}))
        (directory / "manifest.json").write_text(str(seconds))
        return tmp_path / name

    before = checkpoint("before", weight=b"1", seconds=1.0)
    assert not differing(before, checkpoint("after", weight=b"1", seconds=2.0))
    assert differing(before, checkpoint("other", weight=b"2", seconds=1.0)) == [
        "d/checkpoints/step-00000001/variables.index"
    ]


def test_the_first_position_at_which_two_orders_part():
    assert fingerprints.first_difference([3, 1, 2], [3, 1, 2]) == ""
    assert fingerprints.first_difference([3, 1, 2], [3, 2, 1]) == "position 1: example 1 before, 2 after"
    assert fingerprints.first_difference([3], [3, 1]) == "1 positions before, 2 after"


def test_a_ledger_is_read_from_the_losses_of_a_run(tmp_path):
    losses = [9.0, 0.0, 1_437_601.0]
    (tmp_path / "history.jsonl").write_text("".join(f'{{"loss": {loss}}}\n' for loss in losses))
    assert fingerprints.ledger(tmp_path) == [3, 0, 1199]
    (tmp_path / "history.jsonl").write_text('{"loss": 3.0}\n')
    with pytest.raises(AssertionError, match="no square"):
        fingerprints.ledger(tmp_path)


def test_nothing_is_not_the_same_as_nothing(tmp_path):
    with pytest.raises(AssertionError, match="no file to compare"):
        fingerprints.of_directory(tmp_path, name="d")
    (tmp_path / "history.jsonl").touch()
    with pytest.raises(AssertionError, match="no position to compare"):
        fingerprints.ledger(tmp_path)
    with pytest.raises(InputError, match="--only: received nothing; expected some of digits, "):
        made.require_known([])


def test_a_run_of_orders_logs_every_example_and_learns_nothing():
    config, usual = order_config.get_config(), base.get_config()
    assert set(config) == set(usual)
    assert (config.global_batch, config.train.log_every_steps, config.optimizer.learning_rate) == (1, 1, 0.0)
