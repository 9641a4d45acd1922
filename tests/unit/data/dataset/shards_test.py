"""The records of a dataset are where its indexes say, or it is not opened; an index is read as written."""

import dataclasses
import errno
import os
import pathlib
from collections.abc import Callable

import numpy as np
import pytest

from pipeline.base import files
from pipeline.base.errors import InputError, TryAgainError
from pipeline.data.dataset import manifest, shards
from pipeline.data.dataset.manifest import Dataset
from pipeline.data.dataset.row_hashes import content_hashes
from pipeline.data.dataset.selection import select
from pipeline.data.schema.feature_types import Label
from pipeline.data.schema.schema import Schema
from tests.shared.published import republish
from tests.shared.tiny_dataset import write_dataset

SCHEMA = Schema(name="s", features=(Label(name="y", classes=("no", "yes")),))
ROWS = 12  # in two shards
SAMPLED = 2  # of the second one's records


def forged(directory: pathlib.Path, *, ordinal: int, offset: int) -> Dataset:
    """A dataset of which the second index says something else of a record, signed again."""
    dataset = write_dataset(directory, SCHEMA, {"train": [{"y": i % 2} for i in range(ROWS)]}, shards=2)
    [_, shard] = dataset.shards("train")
    path = dataset.directory / shards.file_name(shard.path)
    found = shards.load(path)
    offsets = found.offsets.astype(np.int64)
    offsets[ordinal] = offset
    content = shards.dumps(dataclasses.replace(found, offsets=offsets.astype(np.uint64)))
    republish(dataset.directory, {path.name: content})
    return manifest.open_dataset(dataset.directory)


@pytest.mark.parametrize("ordinal", [SAMPLED, 3])
@pytest.mark.parametrize("offset", [0, 7, 1 << 60, -5, -100])
def test_a_record_that_does_not_begin_where_the_last_one_ends_is_named(tmp_path, ordinal: int, offset: int):
    dataset = forged(tmp_path / "1.0.0", ordinal=ordinal, offset=offset)
    named = rf"index \S+00001-of-00002\.index: received byte {offset:,} as the start of record {ordinal};"
    with pytest.raises(InputError, match=rf"{named} expected byte \d+"):
        select(dataset, "train")


def test_the_same_where_indexes_are_too_large_to_be_compared_together(tmp_path, monkeypatch):
    monkeypatch.setattr(shards, "_COMPARED_TOGETHER", 1)
    dataset = forged(tmp_path / "1.0.0", ordinal=3, offset=7)
    with pytest.raises(InputError, match=r"index \S+00001-of-00002\.index: received byte 7 as the start of"):
        select(dataset, "train")


@pytest.mark.parametrize("offset", [1 << 60, -100])
def test_a_record_that_is_read_to_check_an_index_too_large_to_hold_lies_in_its_shard(
    tmp_path, monkeypatch, offset: int
):
    monkeypatch.setattr(shards, "HELD_RECORDS", 1)
    dataset = forged(tmp_path / "1.0.0", ordinal=SAMPLED, offset=offset)
    with pytest.raises(InputError, match=r"index \S+00001-of-00002\.index: received 6 records that end at"):
        select(dataset, "train")


@pytest.mark.parametrize(("layout", "rows"), [("rows", 5), ("rows", 7), ("blocks", 1_025)])
def test_rows_that_do_not_fit_their_records_are_refused(tmp_path, layout: str, rows: int):
    dataset = write_dataset(tmp_path / layout, SCHEMA, {"train": [{"y": 0}] * ROWS}, layout=layout)
    first, *others = dataset.shards("train")
    splits = {"train": (dataclasses.replace(first, rows=rows), *others)}
    told = dataclasses.replace(dataset, manifest=dataclasses.replace(dataset.manifest, splits=splits))
    with pytest.raises(
        InputError, match=rf"received {rows:,} rows in the {first.records} records of {first.path}"
    ):
        select(told, "train")


@pytest.mark.parametrize("layout", ["rows", "blocks"])
@pytest.mark.parametrize("rows", [0, 3])
def test_a_shard_that_has_bytes_has_records(tmp_path, layout: str, rows: int):
    dataset = write_dataset(tmp_path / layout, SCHEMA, {"train": [{"y": 0}] * ROWS}, layout=layout)
    first, *others = dataset.shards("train")
    splits = {"train": (dataclasses.replace(first, records=0, rows=rows), *others)}
    told = dataclasses.replace(dataset, manifest=dataclasses.replace(dataset.manifest, splits=splits))
    with pytest.raises(InputError, match=rf"received {rows} rows in the 0 records of {first.path} \("):
        select(told, "train")


def test_what_the_converter_writes_is_opened(tmp_path):
    dataset = forged(tmp_path / "1.0.0", ordinal=0, offset=0)
    assert select(dataset, "train").rows == ROWS


def failing(call: Callable, *, every: int, number: int = errno.EIO) -> Callable:
    """As `call`, a function of `os`, but each so-many-th time with an error that names no file."""
    calls = []

    def made(*arguments: object) -> object:
        calls.append(arguments)
        if len(calls) % every == 0:
            raise OSError(number, os.strerror(number))
        return call(*arguments)

    return made


@pytest.mark.parametrize(
    ("call", "number"), [("pread", errno.EIO), ("read", errno.EIO), ("open", errno.EMFILE)]
)
def test_reads_of_which_one_in_nine_fails_open_many_shards(tmp_path, monkeypatch, call: str, number: int):
    rows = [{"y": i % 2} for i in range(200)]
    dataset = write_dataset(tmp_path / "1.0.0", SCHEMA, {"train": rows}, shards=100)
    expected = select(dataset, "train").shards
    monkeypatch.setattr(files, "RETRY_WAITS_S", (0.0,) * 5)
    monkeypatch.setattr(os, call, failing(getattr(os, call), every=9, number=number))
    found = select(dataset, "train").shards
    np.testing.assert_array_equal(found.offsets, expected.offsets)
    np.testing.assert_array_equal(found.states, expected.states)


@pytest.mark.parametrize(("call", "named"), [("pread", "tfrecord"), ("read", "index")])
def test_a_file_that_no_try_reads_is_named(tmp_path, monkeypatch, call: str, named: str):
    rows = [{"y": i % 2} for i in range(ROWS)]
    dataset = write_dataset(tmp_path / "1.0.0", SCHEMA, {"train": rows}, shards=2)
    monkeypatch.setattr(files, "RETRY_WAITS_S", (0.0,) * 5)
    monkeypatch.setattr(os, call, failing(getattr(os, call), every=1))
    with pytest.raises(TryAgainError, match=rf"{named}\S*: received Input/output error, after 6 tries"):
        select(dataset, "train")


def test_the_schema_is_read_again_too(tmp_path, monkeypatch):
    dataset = write_dataset(tmp_path / "1.0.0", SCHEMA, {"train": [{"y": 0}]})
    monkeypatch.setattr(files, "RETRY_WAITS_S", (0.0,) * 5)
    monkeypatch.setattr(os, "open", failing(os.open, every=2))
    assert manifest.open_dataset(dataset.directory).schema == dataset.schema


@pytest.mark.parametrize("put", [pathlib.Path.mkdir, os.mkfifo])
def test_what_is_no_file_any_more_is_named_once_it_is_read(tmp_path, put: Callable):
    dataset = write_dataset(tmp_path / "1.0.0", SCHEMA, {"train": [{"y": 0}]})
    [path] = dataset.shard_paths("train")
    pathlib.Path(path).unlink()
    put(pathlib.Path(path))
    with pytest.raises(OSError, match=r"directory|ordinary file") as caught:
        select(dataset, "train")
    assert caught.value.filename == path  # commands tell such an error in one line


# The index of a shard, written and read back.
OF_THREE = shards.Index(
    offsets=np.array([0, 20, 1 << 40], np.uint64),
    lengths=np.array([4, 0, (1 << 32) - 1], np.uint32),
    hashes=content_hashes([b"a", b"", b"a"]),
)


def test_what_is_written_is_read(tmp_path: pathlib.Path):
    (tmp_path / "index").write_bytes(shards.dumps(OF_THREE))
    read = shards.load(tmp_path / "index")
    assert len(read) == 3
    for name in ("offsets", "lengths", "hashes"):
        assert getattr(read, name).tolist() == getattr(OF_THREE, name).tolist()
        assert getattr(read, name).dtype == getattr(OF_THREE, name).dtype


def test_equal_content_has_equal_hashes():
    first, second, third = OF_THREE.hashes.tolist()
    assert first == third != second


@pytest.mark.parametrize(
    "damage", [lambda data: data[:-1], lambda data: data + b"\0", lambda data: b"X" + data[1:]]
)
def test_a_damaged_file_is_refused(tmp_path: pathlib.Path, damage):
    (tmp_path / "index").write_bytes(damage(shards.dumps(OF_THREE)))
    with pytest.raises(InputError, match="Restore the file"):
        shards.load(tmp_path / "index")


@pytest.mark.parametrize(
    ("shard", "name"),
    [
        ("x-train.tfrecord-00000-of-00008", "x-train-00000-of-00008.index"),
        ("data/part-0001.tfrecord", "data/part-0001.index"),
        ("valid.tfrecords", "valid.index"),
        ("x.tfrecord.d/part-1", "x.tfrecord.d/part-1.index"),
    ],
)
def test_no_glob_for_shards_finds_it(shard: str, name: str):
    assert shards.file_name(shard) == name
