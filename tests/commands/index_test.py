"""TFRecord files of others get an index, or are told what is wrong; indexed ones are read by position."""

import gzip
import pathlib
import subprocess
import sys

import pytest
import tensorflow as tf

from pipeline.base.errors import EXIT_BAD_INPUT, InputError
from pipeline.data.dataset import foreign, shards
from pipeline.data.dataset.row_hashes import content_hashes
from pipeline.data.dataset.selection import select
from pipeline.data.reading import windows
from pipeline.data.reading.parsing import parse_rows
from pipeline.data.schema.feature_types import Categorical, Label
from pipeline.data.schema.schema import Schema
from tests.shared.fixtures.raw_data import DATA, needs_data

PAYLOADS = [b"first", b"", b"third" * 1000, b"last"]
OFFSETS = [0, 21, 37, 5053]


@pytest.fixture
def file(tmp_path: pathlib.Path) -> pathlib.Path:
    with tf.io.TFRecordWriter(str(tmp_path / "part-1.tfrecord")) as writer:
        for payload in PAYLOADS:
            writer.write(payload)
    return tmp_path / "part-1.tfrecord"


def run(*args: object) -> subprocess.CompletedProcess:
    command = [sys.executable, "-m", "pipeline.index", *map(str, args)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def flip(file: pathlib.Path, byte: int) -> None:
    data = bytearray(file.read_bytes())
    data[byte] ^= 1
    file.write_bytes(data)


def test_the_index_tells_where_every_record_is(file: pathlib.Path):
    ended = run(file)
    assert (ended.returncode, ended.stdout) == (0, f"{file.parent}/part-1.index: 4 records\n")
    found = shards.load(file.parent / "part-1.index")
    assert found.offsets.tolist() == OFFSETS
    assert found.lengths.tolist() == list(map(len, PAYLOADS))
    assert found.hashes.tolist() == content_hashes(PAYLOADS).tolist()


def test_every_damaged_record_is_named_and_the_other_files_are_indexed(file: pathlib.Path):
    sound = file.with_name("sound.tfrecord")
    sound.write_bytes(file.read_bytes())
    flip(file, OFFSETS[0] + 13)
    flip(file, OFFSETS[2])
    with file.open("r+b") as opened:
        opened.truncate(file.stat().st_size - 1)
    ended = run(file, sound)
    assert ended.returncode == EXIT_BAD_INPUT
    assert "record 0 at byte 0: the checksum of its 5 bytes is wrong" in ended.stderr
    assert "record 2 at byte 37: the checksum of the record's length is wrong" in ended.stderr
    assert "record 3 at byte 5,053: the file ends inside the record" in ended.stderr
    assert not (file.parent / "part-1.index").exists()
    assert (file.parent / "sound.index").exists()


def test_an_index_that_differs_is_not_replaced(file: pathlib.Path):
    assert run(file).returncode == 0
    before = (file.parent / "part-1.index").read_bytes()
    with tf.io.TFRecordWriter(str(file)) as writer:
        writer.write(b"other")
    for flags in ([], ["--check"]):
        ended = run(*flags, file)
        assert ended.returncode == EXIT_BAD_INPUT
        assert "part-1.index: received another index than that of the 1 records" in ended.stderr
    assert (file.parent / "part-1.index").read_bytes() == before


def test_check_writes_nothing(file: pathlib.Path):
    ended = run("--check", file)
    assert ended.returncode == EXIT_BAD_INPUT
    assert "Run the same without --check" in ended.stderr
    assert not (file.parent / "part-1.index").exists()


def test_gzip_is_told_from_damage(file: pathlib.Path):
    file.write_bytes(gzip.compress(file.read_bytes()))
    ended = run(file)
    assert ended.returncode == EXIT_BAD_INPUT
    assert "received a gzip file" in ended.stderr
    assert "gzip -dc" in ended.stderr


def test_two_files_with_one_name_for_their_index_are_refused(file: pathlib.Path):
    file.with_suffix(".tfrecords").write_bytes(b"")
    ended = run(file, file.with_suffix(".tfrecords"))
    assert "each with a name of its own for its index" in ended.stderr


SCHEMA = Schema(name="mine", features=(Label(name="value", task="regression"),))


def test_files_that_changed_since_they_were_indexed_are_refused(file: pathlib.Path):
    with pytest.raises(InputError, match=r"part-1.index: received no such file.*pipeline.index"):
        foreign.open_files([file], SCHEMA)
    assert run(file).returncode == 0
    with file.open("ab") as opened:
        opened.write(b"more")
    message = r"4 records that end at byte 5,073; .* end of part-1.tfrecord, byte 5,077\. .* delete the index"
    with pytest.raises(InputError, match=message):
        foreign.open_files([file], SCHEMA)


@pytest.mark.slow
def test_records_of_files_in_several_folders_are_read(file: pathlib.Path):
    second = file.parent / "elsewhere" / "part-2.tfrecord"
    second.parent.mkdir()
    second.write_bytes(file.read_bytes())
    assert run(file, second).returncode == 0
    data = select(foreign.open_files([file, second], SCHEMA), "train")
    stored = [record for _, each in windows.stored_rows(data) for record in each.numpy()]
    assert stored == 2 * PAYLOADS
    positions, shuffled = next(windows.window_rows(data, seed=1, position=0).as_numpy_iterator())
    assert positions.tolist() == list(range(8))
    assert sorted(shuffled) == sorted(2 * PAYLOADS)


@pytest.mark.slow
@needs_data
def test_records_of_others_are_read_by_position(tmp_path: pathlib.Path):
    file = tmp_path / "train.tfrecord"
    file.write_bytes((pathlib.Path(DATA) / "tfrecords_by_others/fuxictr/train.tfrecord").read_bytes())
    assert run(file).returncode == 0
    clicks = Schema(
        name="clicks",
        features=(
            Categorical(name="userid", encoding="integer", size=26),
            Categorical(name="brand", encoding="integer", size=1000),
            Label(name="clk", task="regression"),
        ),
    )
    data = foreign.open_files([file], clicks)
    stored = read(windows.stored_rows(select(data, "train")), clicks)
    theirs = [
        tf.train.Example.FromString(record)
        for record in tf.data.TFRecordDataset(str(file)).as_numpy_iterator()
    ]
    assert stored == [one.features.feature["brand"].int64_list.value[0] for one in theirs]
    part = select(data, "train[:60%]")
    shuffled = read(windows.window_rows(part, seed=1, position=10).unbatch().take(50).batch(50), clicks)
    assert len(shuffled) == 50
    assert set(shuffled) <= set(stored[:60])


def read(rows: tf.data.Dataset, schema: Schema) -> list[int]:
    return [int(brand) for _, each in rows for brand in parse_rows(each, schema)[0]["brand"]]
