"""Answers come back from their file as they were, and a file that is not whole is refused."""

import dataclasses
import pathlib

import numpy as np
import pytest

from pipeline.base.errors import InputError
from pipeline.data.integrity.scan import DamagedRecord
from pipeline.retraining import holdout
from pipeline.retraining.holdout import Answers

DAMAGED = DamagedRecord(dataset="d1", file="a.tfrecord", ordinal=3, offset=99, rows=1, reason="its checksum")
ANSWERS = Answers(
    task="binary",
    classes=("no", "yes"),
    labels=np.array([0, 1, 1], np.int32),
    predictions={"champion": np.array([[0.9, 0.1], [0.5, 0.5], [0.0, 1.0]], np.float32)},
    weights=np.array([1.0, 0.0, 2.5], np.float32),
    clusters=np.array([4, 4, 7]),
    slices={"größe / cm": np.array(["(missing)", "ß", "170.5"]), "../x": np.array(["a", "", "b"])},
    models={"champion": "3f2a"},
    dataset_digest="77aa",
    split="test",
    damaged=(DAMAGED,),
)


def test_answers_come_back_to_the_last_bit(tmp_path):
    ANSWERS.save(tmp_path / "holdout" / "answers.npz")
    found = holdout.load(tmp_path / "holdout" / "answers.npz")
    assert found.labels.dtype == np.int32
    assert found.clusters.dtype == np.int64
    assert found.predictions["champion"].tobytes() == ANSWERS.predictions["champion"].tobytes()
    assert repr(found) == repr(ANSWERS)
    assert found.digest == ANSWERS.digest


def test_what_is_not_there_stays_away(tmp_path):
    few = dataclasses.replace(ANSWERS, weights=None, clusters=None, slices={}, damaged=())
    few.save(tmp_path / "answers.npz")
    assert repr(holdout.load(tmp_path / "answers.npz")) == repr(few)


def test_the_same_answers_are_the_same_file(tmp_path):
    for name in ("one", "other"):
        ANSWERS.save(tmp_path / name)
    assert (tmp_path / "one").read_bytes() == (tmp_path / "other").read_bytes()


@pytest.mark.parametrize(
    "other",
    [{"split": "validation"}, {"dataset_digest": "77ab"}, {"damaged": ()}],
    ids=lambda each: next(iter(each)),
)
def test_the_digest_tells_which_rows_they_are(other):
    assert dataclasses.replace(ANSWERS, models={}, slices={}).digest == ANSWERS.digest
    assert dataclasses.replace(ANSWERS, **other).digest != ANSWERS.digest


@pytest.mark.parametrize("damage", [lambda content: content[:500], lambda _: b"", lambda _: b"{}"])
def test_a_file_that_is_not_whole_is_refused(damage, tmp_path):
    path = tmp_path / "answers.npz"
    ANSWERS.save(path)
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(InputError, match=r"answers .*answers\.npz: received other content"):
        holdout.load(path)


def test_a_changed_byte_is_noticed_or_changes_no_answer(tmp_path):
    path = tmp_path / "answers.npz"
    ANSWERS.save(path)
    content = path.read_bytes()
    harmless, places = 0, range(0, len(content), 3)
    for at in places:
        path.write_bytes(content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :])
        try:
            found = holdout.load(path)
        except InputError:
            continue
        harmless += 1
        assert repr(found) == repr(ANSWERS)
    assert harmless < len(places) / 2  # such as the date of a member of the .npz


def test_no_file_is_told_as_such(tmp_path: pathlib.Path):
    with pytest.raises(InputError, match="received No such file or directory"):
        holdout.load(tmp_path / "answers.npz")


def test_arrays_of_other_lengths_are_refused(tmp_path):
    dataclasses.replace(ANSWERS, labels=np.zeros(2, np.int32)).save(tmp_path / "answers.npz")
    with pytest.raises(InputError, match=r"arrays of \[2, 3\] rows"):
        holdout.load(tmp_path / "answers.npz")
