"""The origin of a row is found in some kilobytes of files; damage is named, files may be deleted."""

import os
import pathlib
import shutil

import numpy as np
import pytest

from pipeline.base.errors import InputError
from pipeline.data.dataset.manifest import Manifest, Shard
from pipeline.data.origins import files, reader
from pipeline.data.origins.files import Entry, Folder, Origin
from pipeline.data.origins.reader import open_origins

SHARDS = ("x-train.tfrecord-00000-of-00002", "x-train.tfrecord-00001-of-00002")
NAMES = [f"folder {number % 7}/größe\n{number}😀.csv" for number in range(3000)]
ROWS = 10_000


def shard(number: int, count: int) -> Shard:
    return Shard(path=SHARDS[number], bytes=1, sha256=f"{number:064x}", records=count, rows=count)


def manifest(*counts: int) -> Manifest:
    shards = tuple(shard(number, count) for number, count in enumerate(counts))
    return Manifest(
        name="x",
        version="1.0.0",
        layout="rows",
        schema_fingerprint="",
        plan_fingerprint="",
        rows_read=0,
        rows_rejected=0,
        splits={"train": shards},
        files=(),
    )


PUBLISHED = manifest(ROWS, 0)
FILES = np.arange(ROWS) % len(NAMES)
NUMBERS = np.arange(ROWS)  # of its first 3,000 rows each is a file


@pytest.fixture
def directory(tmp_path: pathlib.Path) -> pathlib.Path:
    (tmp_path / reader.FOLDER).mkdir()
    entries = [Entry(name, 10 * number) for number, name in enumerate(NAMES)]
    files_id = files.id_of(NAMES)
    content = files.dumps(entries, folder=Folder("/raw/"), files_id=files_id)
    (tmp_path / reader.FILES_NAME).write_bytes(content)
    for each, count in zip(PUBLISHED.splits["train"], (ROWS, 0), strict=True):
        places = files.place(FILES[:count], np.where(NUMBERS[:count] < len(NAMES), 0, NUMBERS[:count]))
        parts = files.pack_rows(places, files_id=files_id, shard_sha256=each.sha256)
        (tmp_path / reader.file_name(each.path)).write_bytes(b"".join(parts))
    return tmp_path


def test_the_origin_of_a_row(directory: pathlib.Path):
    origins = open_origins(directory, PUBLISHED)
    assert origins.folder.root == "/raw/"
    assert origins.of(SHARDS[0], 17) == Origin(NAMES[17], None)
    assert origins.of(SHARDS[0], 5000) == Origin(NAMES[2000], 20_000 + 5000)
    assert str(origins.of(SHARDS[0], 5000)) == f"{NAMES[2000]} row 25,000"


def test_the_origins_of_many_rows(directory: pathlib.Path):
    wanted = np.random.default_rng(0).permutation(ROWS)
    found = open_origins(directory, PUBLISHED).of_rows(SHARDS[0], wanted)
    for ordinal, origin in zip(wanted.tolist(), found, strict=True):
        number = ordinal % len(NAMES)
        row = None if ordinal < len(NAMES) else 10 * number + ordinal
        assert origin == Origin(NAMES[number], row)


def test_rows_that_are_not_there(directory: pathlib.Path):
    origins = open_origins(directory, PUBLISHED)
    with pytest.raises(IndexError, match="10,000 rows"):
        origins.of(SHARDS[0], ROWS)
    with pytest.raises(KeyError):
        origins.of("y-train.tfrecord-00000-of-00001", 0)
    assert origins.of_rows(SHARDS[1], np.zeros(0, np.int64)) == []


def test_deleted_origins_are_no_damage(directory: pathlib.Path):
    (directory / reader.file_name(SHARDS[0])).unlink()
    assert open_origins(directory, PUBLISHED).of(SHARDS[0], 0) is None
    assert [name for name, _ in reader.damage(directory, PUBLISHED)] == [reader.file_name(SHARDS[0])]
    shutil.rmtree(directory / reader.FOLDER)
    assert open_origins(directory, PUBLISHED) is None
    assert not list(reader.damage(directory, PUBLISHED))


def test_damage_is_named(directory: pathlib.Path):
    assert not list(reader.damage(directory, PUBLISHED))
    for name in (reader.FILES_NAME, *map(reader.file_name, SHARDS)):
        path = directory / name
        whole = path.read_bytes()
        for at in np.random.default_rng(0).integers(0, len(whole), 40).tolist():
            flipped = bytearray(whole)
            flipped[at] ^= 1
            path.write_bytes(flipped)
            assert [damaged for damaged, _ in reader.damage(directory, PUBLISHED)] == [name], at
        for other in (b"", whole[:-1], whole[: len(whole) // 2], whole + b"\0"):
            path.write_bytes(other)
            assert [damaged for damaged, _ in reader.damage(directory, PUBLISHED)] == [name]
        path.unlink()
        os.mkfifo(path)
        assert [damaged for damaged, _ in reader.damage(directory, PUBLISHED)] == [name]
        path.unlink()
        path.write_bytes(whole)


def test_origins_of_other_data_are_refused(directory: pathlib.Path):
    with pytest.raises(
        InputError, match=r"00000-of-00002.rows: received origins of a shard with SHA-256 0000"
    ):
        open_origins(directory, manifest(ROWS + 1, 0)).of(SHARDS[0], 0)
    other = [Entry(name, 0) for name in NAMES[1:]]
    content = files.dumps(other, folder=Folder(""), files_id=files.id_of(NAMES[1:]))
    (directory / reader.FILES_NAME).write_bytes(content)
    with pytest.raises(InputError, match="received origins that do not go with origins/files"):
        open_origins(directory, PUBLISHED).of(SHARDS[0], 0)


def test_a_list_of_more_chunks_than_its_rows_need_is_not_read_whole(directory: pathlib.Path):
    origins = open_origins(directory, PUBLISHED)
    content = bytearray((directory / reader.FILES_NAME).read_bytes())
    content[-1] ^= 1  # of the last names, which row 0 has no use for
    (directory / reader.FILES_NAME).write_bytes(content)
    assert origins.of(SHARDS[0], 0) == Origin(NAMES[0], None)
    with pytest.raises(InputError, match=r"origins/files: received other bytes than were written"):
        origins.of(SHARDS[0], len(NAMES) - 1)
