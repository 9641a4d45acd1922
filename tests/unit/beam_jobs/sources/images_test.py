"""Folders of images: paths, classes and ids, not pixels."""

import os
import pathlib

import pytest

from beam_jobs.sources.images import ImageFolders
from beam_jobs.sources.source import Input
from pipeline.base.errors import InputError
from tests.shared import raw_rows


def make(root: pathlib.Path, *names: str) -> pathlib.Path:
    for name in names:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"not read here")
    return root


def test_a_row_is_a_path_and_its_folder(tmp_path: pathlib.Path):
    root = make(tmp_path / "images", "pear/2.png", "apple/1.png", "apple/.DS_Store")
    source = ImageFolders()
    [input_split] = source.input_splits([Input(location=str(root), split="train")])
    [raw] = source.read(input_split)
    assert input_split.split == "train"
    assert raw.columns.to_pylist() == [
        {"image": f"{root}/apple/1.png", "label": "apple"},
        {"image": f"{root}/pear/2.png", "label": "pear"},
    ]
    assert raw.ids.to_pylist() == ["apple/1.png", "pear/2.png"]
    assert raw.origin(0) == ("apple/1.png", None)


def test_files_outside_a_class_folder_are_rejected(tmp_path: pathlib.Path):
    root = make(tmp_path / "images", "apple/1.png", "readme.txt", "apple/deep/2.png")
    [raw] = raw_rows.read(ImageFolders(), f"{root}/")
    assert [rejection.source for rejection in raw.rejected] == ["apple/deep/2.png", "readme.txt"]
    assert {rejection.reason for rejection in raw.rejected} == {"not at <input>/<class>/<file>"}


@pytest.mark.parametrize("given", ["", "1.png", "*.png"])
def test_images_without_labels_may_lie_anywhere(tmp_path: pathlib.Path, given: str):
    root = make(tmp_path / "images", "1.png")
    [raw] = raw_rows.read(ImageFolders(labelled=False), f"{root}/{given}")
    assert raw.columns.to_pylist() == [{"image": f"{root}/1.png", "label": None}]
    assert raw.origin(0) == ("1.png", None)


def test_folders_of_classes_may_be_there_all_the_same(tmp_path: pathlib.Path):
    root = make(tmp_path / "images", "1.png", "pear/2.png", "pear/ripe/3.png")
    [raw] = raw_rows.read(ImageFolders(labelled=False), root)
    assert raw.column("label").to_pylist() == [None, "pear", "ripe"]
    assert raw.rejected == ()


def test_many_files_are_read_in_input_splits(tmp_path: pathlib.Path):
    root = make(tmp_path, *(f"a/{number}.png" for number in range(2001)))
    input_splits = ImageFolders().input_splits([Input(location=str(root))])
    assert [len(input_split.paths) for input_split in input_splits] == [1000, 1000, 1]


def test_an_empty_folder_is_refused(tmp_path: pathlib.Path):
    with pytest.raises(InputError, match="no file there"):
        ImageFolders().input_splits([Input(location=str(tmp_path))])


def test_a_name_that_is_not_utf8_is_a_rejected_row(tmp_path: pathlib.Path):
    root = make(tmp_path / "images", "apple/1.png", os.fsdecode(b"caf\xe9/1.png"))
    [raw] = raw_rows.read(ImageFolders(), root)
    assert raw.column("label").to_pylist() == ["apple"]
    assert [(one.source, one.reason) for one in raw.rejected] == [
        ("caf\udce9/1.png", "a name that is not UTF-8")
    ]
