"""Several datasets of one schema are read as one: the rows of the first, then those of the second."""

import os
import pathlib
import shutil

import pytest
import tensorflow as tf

from pipeline.base.errors import InputError
from pipeline.data.dataset import manifest as manifest_lib
from pipeline.data.dataset.manifest import Dataset
from pipeline.data.dataset.selection import select
from pipeline.data.dataset.window import open_window
from pipeline.data.integrity import damage as damage_lib
from pipeline.data.reading import parsing, windows
from pipeline.data.schema.feature_types import Categorical, Label, Numeric
from pipeline.data.schema.schema import Schema
from tests.shared.tiny_dataset import write_dataset

SCHEMA = Schema(name="tiny", features=(Numeric(name="x"), Label(name="y", classes=("a", "b"))))


def rows(first: int, end: int) -> list[dict]:
    return [{"x": float(i), "y": i % 2} for i in range(first, end)]


def span(directory: pathlib.Path, layout: str = "rows", **splits: list[dict]) -> Dataset:
    return write_dataset(directory, SCHEMA, splits, layout=layout)


@pytest.fixture
def spans(tmp_path) -> pathlib.Path:
    """Three days: of the second, train is empty; the third has no split `test`."""
    span(tmp_path / "day=01" / "a", train=rows(0, 5), test=rows(100, 102))
    span(tmp_path / "day=02" / "b", train=rows(0, 0), test=rows(102, 105))
    span(tmp_path / "day=03" / "c", train=rows(5, 8))
    return tmp_path


def stored(dataset: Dataset, expression: str) -> list[float]:
    """The numbers `x` of what is selected, in stored order."""
    read = windows.stored_rows(select(dataset, expression))
    parsed = (parsing.parse_rows(some, dataset.schema)[0]["x"] for _, some in read)
    return [x for some in parsed for x in some.numpy().ravel().tolist()]


@pytest.mark.parametrize("layout", ["rows", "blocks"])
def test_the_rows_of_a_split_are_those_of_each_span_in_turn(tmp_path, layout):
    span(tmp_path / "1", layout, train=rows(0, 5), test=rows(50, 52))
    span(tmp_path / "2", layout, train=rows(5, 9))
    window = open_window([str(tmp_path / "*")])
    assert stored(window, "train") == list(map(float, range(9)))
    assert stored(window, "test[1:]+train[3:7]") == [51.0, 3.0, 4.0, 5.0, 6.0]


def test_a_split_that_a_span_lacks_or_has_no_rows_of_is_that_of_the_others(spans):
    window = open_window([spans / "day=01" / "a", f"{spans}/day=0[23]/*"])
    assert list(window.manifest.splits) == ["train", "test"]
    assert (window.rows("train"), window.records("test")) == (8, 5)
    assert stored(window, "train") == list(map(float, range(8)))
    assert stored(window, "test") == [100.0, 101.0, 102.0, 103.0, 104.0]


def test_one_directory_is_the_dataset_itself(spans):
    alone = manifest_lib.open_dataset(spans / "day=01" / "a")
    assert open_window([spans / "day=01" / "a"]) == open_window([f"{spans}/day=01/*"]) == alone
    assert alone.published == (alone,)


def test_datasets_come_in_the_order_given_and_those_of_a_glob_sorted(spans):
    given = open_window([spans / "day=03" / "c", f"{spans}/day=0[12]/*"])
    assert [str(each.directory.relative_to(spans)) for each in given.published] == [
        "day=03/c",
        "day=01/a",
        "day=02/b",
    ]
    assert stored(given, "train") == [5.0, 6.0, 7.0, 0.0, 1.0, 2.0, 3.0, 4.0]


def test_a_directory_whose_name_looks_like_a_glob_is_taken_by_its_name(tmp_path):
    odd = span(tmp_path / "run[1]*", train=rows(0, 2))
    assert open_window([str(odd.directory)]) == odd


def test_the_digest_is_that_of_the_members_in_order_wherever_they_lie(spans, tmp_path):
    first, second = spans / "day=01" / "a", spans / "day=03" / "c"
    window = open_window([first, second])
    moved = tmp_path / "moved"
    shutil.copytree(first, moved / "x")
    shutil.copytree(second, moved / "deep" / "y")
    assert open_window([moved / "x", moved / "deep" / "y"]).manifest.digest == window.manifest.digest
    others = [open_window([second, first]), open_window([first]), open_window([f"{spans}/day=0*/*"])]
    assert window.manifest.digest not in [each.manifest.digest for each in others]


def test_the_same_directory_twice_is_refused_under_any_name(spans):
    first = spans / "day=01" / "a"
    (spans / "again").symlink_to(first)
    with pytest.raises(InputError, match=r"dataset .*again: received the directory that .*day=01/a names"):
        open_window([str(first), str(spans / "again")])
    with pytest.raises(InputError, match="expected each dataset once"):
        open_window([f"{spans}/day=01/*", str(first)])


def test_a_glob_that_matches_nothing_or_only_files_is_refused(spans):
    (spans / "notes.txt").write_text("")
    for pattern in (f"{spans}/month=*", f"{spans}/*.txt"):
        with pytest.raises(InputError, match="received a glob that matches no directory"):
            open_window([f"{spans}/day=01/*", pattern])
    with pytest.raises(InputError, match="received no directory"):
        open_window([])


def test_another_schema_is_refused_with_both_directories_and_the_feature(spans):
    wider = Schema(name="tiny", features=(*SCHEMA.features, Categorical(name="town", vocabulary=("Bern",))))
    write_dataset(spans / "day=04" / "d", wider, {"train": [{"x": 1.0, "y": 0, "town": "Bern"}]})
    with pytest.raises(InputError, match=r"day=04/d: .*which differs in 'town'; expected .* of .*day=01/a"):
        open_window([f"{spans}/day=0*/*"])


def test_another_layout_is_refused_with_both_directories(spans):
    span(spans / "day=04" / "d", "blocks", train=rows(8, 9))
    with pytest.raises(InputError, match=r"day=04/d: received layout 'blocks'; expected 'rows'.*day=01/a"):
        open_window([f"{spans}/day=0*/*"])


def test_every_file_of_every_member_is_checked(spans):
    shard = spans / "day=03" / "c" / "tiny-train.tfrecord-00001-of-00002"
    os.truncate(shard, 10)
    with pytest.raises(InputError, match=r"day=03/c/tiny-train\.tfrecord-00001-of-00002: received 10 bytes"):
        open_window([f"{spans}/day=0*/*"])


def test_a_split_that_no_member_has_is_named(spans):
    with pytest.raises(InputError, match=r"\(3 datasets\): received a request for split 'validation'"):
        select(open_window([f"{spans}/day=0*/*"]), "validation")


def flip_last_record(dataset: Dataset) -> None:
    path = dataset.directory / dataset.manifest.splits["train"][-1].path
    content = bytearray(path.read_bytes())
    content[-6] ^= 1
    path.write_bytes(content)


def test_damage_is_named_by_its_span_and_left_out_even_after_a_move(spans, tmp_path):
    window = open_window([f"{spans}/day=0*/*"])
    flip_last_record(window.published[2])
    found = {"train": select(window, "train")}
    left, damage = damage_lib.sound_selection(found, budget=1)
    assert str(damage[0]).startswith("day=03/c/tiny-train.tfrecord-00001-of-00002, record")
    assert left["train"].rows == 7
    moved = spans.rename(tmp_path.parent / f"{tmp_path.name}-moved")
    after = open_window([moved / "day=01" / "a", moved / "day=02" / "b", moved / "day=03" / "c"])
    kept = damage_lib.damage_from_json(damage_lib.damage_to_json(damage))
    again = damage_lib.without_damaged(select(after, "train"), kept)
    assert again.ranges == left["train"].ranges == ((0, 7),)


def test_an_error_of_tensorflow_over_a_damaged_span_says_which(spans):
    window = open_window([f"{spans}/day=0*/*"])
    flip_last_record(window.published[0])
    with pytest.raises(tf.errors.DataLossError):
        stored(window, "train")
