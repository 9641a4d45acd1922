"""The index of a shard, written and read back."""

import pathlib

import numpy as np
import pytest

from pipeline.base.errors import InputError
from pipeline.data.dataset import shards
from pipeline.data.dataset.row_hashes import content_hashes

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
