"""Receipts are written once and carry their own digest."""

import pytest

from pipeline.base.errors import InputError
from pipeline.retraining import records


def test_what_was_done_once_is_not_told_otherwise_later(tmp_path):
    path = tmp_path / "train.json"
    assert records.write_result(path, {"loss": 0.5}) == {"loss": 0.5}
    assert records.write_result(path, {"loss": 0.1}) == {"loss": 0.5}
    assert records.read_result(path) == {"loss": 0.5}


def test_without_a_file_there_is_no_receipt(tmp_path):
    assert records.read_result(tmp_path / "train.json") is None


@pytest.mark.parametrize(
    "damage",
    [
        lambda text: text.replace("0.5", "0.4"),
        lambda text: text[: len(text) // 2],
        lambda text: "",
        lambda text: "[]",
        lambda text: "[" * 100_000,
    ],
    ids=["changed", "cut", "empty", "list", "deep"],
)
def test_a_damaged_receipt_is_named(tmp_path, damage):
    path = tmp_path / "train.json"
    records.write_result(path, {"loss": 0.5})
    path.write_text(damage(path.read_text()))
    with pytest.raises(InputError, match=r"stage result .*train\.json"):
        records.read_result(path)


def test_a_folder_in_its_place_is_named(tmp_path):
    (tmp_path / "train.json").mkdir()
    with pytest.raises(InputError, match=r"train\.json"):
        records.read_result(tmp_path / "train.json")


def test_a_receipt_of_another_cycle_is_named(tmp_path):
    one, other = tmp_path / "a" / "train.json", tmp_path / "b" / "train.json"
    for path in (one, other):
        path.parent.mkdir()
    records.write_result(one, {"loss": 0.5})
    other.write_bytes(one.read_bytes())
    with pytest.raises(InputError, match=r"b/train\.json.*of something else"):
        records.read_result(other)
    (tmp_path / "a").rename(tmp_path / "c")
    with pytest.raises(InputError, match=r"c/train\.json.*of something else"):
        records.read_result(tmp_path / "c" / "train.json")
